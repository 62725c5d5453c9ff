"""What a version runs with besides its images: models and judges by their fingerprints, and whether they drifted. Pure.

A fingerprint's value is text: `label=value,label=value`, sorted by label. Two worlds are the same when all values are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.explain import clip

Fingerprints = Mapping[str, str]
"""Values by the name that the contract gives each."""

MAX_VALUE_CHARS = 512
"""A value is kept in each GateRun of the attempt."""
_SHOWN_CHARS = 80
_REST = "although nothing was deployed: what was judged before speaks of another world; a Retry judges anew."


@dataclass(frozen=True, slots=True)
class WorldSeen:
    """What a look knows of the world, beside what the checks measure."""

    drifted: str = ""
    """What has changed since the attempt began, in a sentence; empty when nothing that is known has."""
    unknown: Fault | None = None
    """Why what is needed for a promotion has not been read late enough; None when it has."""


UNWATCHED = WorldSeen()
"""Where the contract names no fingerprints."""


def fingerprint_value(labels: Mapping[str, str]) -> str:
    """One text for these labels; different labels never give the same. What is not printable is escaped."""
    return ",".join(f"{name}={_escaped(labels[name])}" for name in sorted(labels))


def judge_fingerprint(judges: Iterable[tuple[str, str]]) -> str:
    """The value for the judges that the records of a result file name, as (id, version); empty when none does.

    Several judges in one file are one value: each once, sorted, with a semicolon between them.
    """
    named = {(id_, version) for id_, version in judges if id_ or version}
    return ";".join(
        fingerprint_value({"id": id_, "version": version}).replace(";", "\\;")
        for id_, version in sorted(named)
    )


def drift(pinned: Fingerprints, now: Fingerprints) -> str:
    """What differs between the world that an attempt began in and the one that is now, as a sentence; empty: nothing.

    A name that `now` lacks is not known at present, which is no drift; one that `pinned` lacks was never bound to.
    """
    changed = [name for name in sorted(pinned) if name in now and now[name] != pinned[name]]
    if not changed:
        return ""
    told = "; ".join(
        f"{name} was {_shown(pinned[name])} when the attempt began and is {_shown(now[name])} now"
        for name in changed[:3]
    )
    more = f"; and {len(changed) - 3} more" if len(changed) > 3 else ""
    return clip(f"{told}{more}, {_REST}")


def _escaped(value: str) -> str:
    """Commas and backslashes could make two values one; control characters and halves of characters can't be stored."""
    return "".join(
        f"\\{char}" if char in ",\\" else char if char.isprintable() else f"\\u{{{ord(char):x}}}"
        for char in value
    )


def _shown(value: str) -> str:
    return value if len(value) <= _SHOWN_CHARS else value[: _SHOWN_CHARS - 1] + "…"
