"""Canonical JSON (RFC 8785) and the digests that verdicts are bound to.

The same value has the same bytes on every machine and in every version, so a digest can be worked out again
offline.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import rfc8785

from gatewright_analysis.kinds.contract import GateContractSpec

MAX_CONTRACT_BYTES: Final = 128 * 1024
"""A contract stands in the ledger as one entry of a segment of 256 KiB."""
_NOT_JUDGING: Final = ("title", "fixHint")
"""Fields of a check that are for people: a better hint is no new version of the contract."""
_SAFE_INTEGER: Final = 2**53 - 1
_MAX_DEPTH: Final = 64


class ContractTooLarge(ValueError):
    """The contract cannot be recorded: split it, or shorten its selectors."""


@dataclass(frozen=True, slots=True)
class CanonicalContract:
    """A contract's canonical bytes, and their digest, which is its version."""

    data: bytes
    digest: str


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value. Raises TypeError with the path of what is no JSON.

    A number that JSON can't carry exactly (NaN, infinities, integers beyond 2^53) is written as a string: a
    record says what was there, and a strange number must not keep a verdict out of the ledger. pydantic reads
    it back. Lone surrogates, which UTF-8 can't carry, become U+FFFD.
    """
    return rfc8785.dumps(_plain(value, "$", _MAX_DEPTH))


def digest_of_bytes(data: bytes) -> str:
    """`sha256:` and 64 hex digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def digest_of_json(value: Any) -> str:
    """Digest of the canonical bytes of a JSON value."""
    return digest_of_bytes(canonical(value))


def canonical_contract(spec: GateContractSpec) -> CanonicalContract:
    """What judges, with every default spelt out, and without what is only for people.

    Raises ContractTooLarge beyond 128 KiB.
    """
    resolved = spec.wire()
    for check in resolved["checks"]:
        for field in _NOT_JUDGING:
            check.pop(field, None)
    data = canonical(resolved)
    if len(data) > MAX_CONTRACT_BYTES:
        raise ContractTooLarge(
            f"The contract has {len(data) // 1024} KiB in canonical form; up to {MAX_CONTRACT_BYTES // 1024} "
            "KiB can be recorded: split it into several contracts, or shorten its selectors."
        )
    return CanonicalContract(data, digest_of_bytes(data))


def artifact_digest(images: Iterable[tuple[str, str]]) -> str:
    """Digest of what is judged: (container, image digest as the node reported it) of each.

    Containers are sorted; of `docker-pullable://registry/image@sha256:…` only the digest counts, since where
    an image was pulled from is not what it is. What carries no digest (a node that reports none) counts as it
    is.
    """
    return digest_of_json({"images": _sorted_images(images)})


def config_digest(pod_spec: Mapping[str, Any]) -> str:
    """Digest of what a pod template tells its containers besides their images: commands, arguments, environment, mounts.

    Labels and annotations are no part of it: a restart by annotation is the same artifact.
    """
    told = {
        key: [{k: v for k, v in item.items() if k != "image"} for item in value]
        if key in ("containers", "initContainers")
        else value
        for key, value in pod_spec.items()
    }
    return digest_of_json(told)


def world_snapshot(
    images: Iterable[tuple[str, str]],
    fingerprints: Iterable[tuple[str, str]] = (),
    declared: Mapping[str, str] | None = None,
) -> str:
    """Digest of what a version runs with: its images, (name, value) of each model and judge, and what its pod template
    declares.

    Without any of the latter it is the artifact's digest.
    """
    found = sorted(fingerprints)
    world: dict[str, Any] = {"images": _sorted_images(images)}
    if found:
        world["fingerprints"] = [[name, value] for name, value in found]
    if declared:
        world["declared"] = dict(declared)
    return digest_of_json(world)


def _sorted_images(images: Iterable[tuple[str, str]]) -> list[list[str]]:
    found = sorted((container, image.rpartition("@")[2]) for container, image in images)
    return [[container, image] for container, image in found]


def evidence_digest(evidence: Mapping[str, Any]) -> str:
    """Digest of the evidence a verdict rests on, as it is stored: windows, ticks, facts, faults."""
    return digest_of_json(evidence)


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth < 0:
        raise TypeError(f"{path[:200]}: nested more than {_MAX_DEPTH} levels deep")
    match value:
        case None | bool():
            return value
        case str():
            return _text(value)
        case int():
            return int(value) if abs(value) <= _SAFE_INTEGER else str(int(value))
        case float():
            return _number(value)
        case Mapping():
            return _object(value, path, depth)
        case list() | tuple():
            return [_plain(item, f"{path}[{n}]", depth - 1) for n, item in enumerate(value)]
        case _:
            raise TypeError(f"{path}: {type(value).__name__} is no JSON; convert it first")


def _object(value: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{path}: the key {key!r} is no string")
        name = _text(key)
        if name in result:
            raise TypeError(f"{path}: two keys become {name!r}")
        result[name] = _plain(item, f"{path}.{name}", depth - 1)
    return result


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    # RFC 8785 writes 1e20 as twenty-one digits, which every reader but JavaScript takes for an integer.
    return repr(float(value)) if abs(value) > _SAFE_INTEGER else float(value)


def _text(value: str) -> str:
    return str(value).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
