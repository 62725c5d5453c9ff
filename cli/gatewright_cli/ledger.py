"""`ledger show`, `verify`, `export`, `replay`: what was decided, and the proof that nobody changed it since.

The ConfigMaps come from the cluster, or from a file that `kubectl get configmaps` wrote, so that a ledger can be
verified where there is no cluster.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gatewright_analysis.names import LEDGER_LABEL
from gatewright_cli.errors import Exit, GateError, NotFound, UsageError
from gatewright_cli.files import documents, objects
from gatewright_cli.flags import KubeFlags
from gatewright_cli.formats import Output, show
from gatewright_cli.kube import Kube, Object, path
from gatewright_cli.output import PLAIN, Style, clean, parse_time, print_lines, shorten, table

if TYPE_CHECKING:
    from gatewright_analysis.ledger import Entry, Segment, VerifyResult

PAGE = 20
"""ConfigMaps read at once: each may hold a quarter of a MiB and more."""


@dataclass(frozen=True)
class Source:
    """The segments of one ledger, and the head that the Rollout's status shows (None: there is no Rollout)."""

    rollout: str
    where: str
    config_maps: tuple[Object, ...]
    head: Object | None = None


def run(
    flags: KubeFlags,
    action: str,
    rollout: str,
    file: str | None,
    head: str | None,
    output: str | None,
    evidence: str | None = None,
) -> Exit:
    if action == "replay" and (file is None) != (evidence is None):
        raise UsageError("A replay reads --file and --evidence, or both from the cluster.")
    source = from_file(file, rollout) if file is not None else from_cluster(Kube.of(flags), rollout)
    if action == "replay":
        from gatewright_cli import replay

        stored = (
            replay.from_cluster(Kube.of(flags), source)
            if evidence is None
            else replay.from_file(evidence, source.rollout)
        )
        return replay.run(source, stored, output=Output(output or ""))
    if action == "export":
        from gatewright_cli import export

        return export.run(source, output or export.ENTRIES)
    if action == "show":
        return _show(source, output)
    return _verify(source, head, output=Output(output or ""))


def from_cluster(kube: Kube, rollout: str) -> Source:
    """Raises UsageError without a name, NotFound when there is neither a Rollout nor a ledger of that name."""
    if not rollout:
        raise UsageError("Name the Rollout, or give a --file.", then="kubectl gate ledger --help")
    missing: NotFound | None = None
    head: Object | None = None
    try:
        # The status first: a ledger that grows meanwhile still holds the head that was read before.
        found = kube.rollout(rollout)
        namespace = found["metadata"]["namespace"]
        head = (found.get("status") or {}).get("ledger") or {}
    except NotFound as error:
        # A ledger outlives its Rollout.
        missing = error
        namespace = kube.namespace()
    selector = path("configmaps", namespace, query=f"labelSelector={LEDGER_LABEL}%3D{rollout}")
    config_maps = tuple(kube.list_all(selector, page=PAGE))
    if missing is not None and not config_maps:
        raise missing
    return Source(rollout, f"{rollout} in {namespace}", config_maps, head)


def from_file(file: str, rollout: str) -> Source:
    """Raises GateError for a file that can't be read, UsageError when it holds several ledgers and none is named."""
    ledgers: dict[str, list[Object]] = {}
    for config_map in objects(documents(file)):
        name = str((config_map["metadata"].get("labels") or {}).get(LEDGER_LABEL) or "")
        if name:
            ledgers.setdefault(name, []).append(config_map)
    names = ", ".join(sorted(ledgers))
    if not ledgers:
        raise GateError(
            f"{file} holds no ConfigMap with the label {LEDGER_LABEL}.",
            then=f"kubectl get configmaps -l {LEDGER_LABEL} -o json > ledger.json",
        )
    if rollout and rollout not in ledgers:
        raise GateError(
            f"{file} holds no ledger of {rollout}, but of {names}.",
            then=f"kubectl get configmaps -l {LEDGER_LABEL}={rollout} -o json > ledger.json",
        )
    if not rollout and len(ledgers) > 1:
        raise UsageError(f"{file} holds several ledgers: {names}. Name one.")
    name = rollout or names
    found = ledgers[name]
    if len({config_map["metadata"].get("namespace") for config_map in found}) > 1:
        raise UsageError(
            f"{file} holds ledgers of {name} in several namespaces. Export one namespace at a time."
        )
    return Source(name, f"{name} in {file}", tuple(found))


def entries_of(config_maps: Sequence[Object]) -> list[dict[str, Any]]:
    """The entries as stored, in order, each with its digest; what can't be read says so in `unreadable`."""
    texts = [
        item
        for config_map in config_maps
        for item in (config_map.get("data") or {}).items()
        if item[0].isdecimal()
    ]
    entries: list[dict[str, Any]] = []
    for key, text in sorted(texts):
        digest = f"sha256:{hashlib.sha256(str(text).encode()).hexdigest()}"
        try:
            stored = json.loads(text)
        except ValueError:
            stored = None
        body = stored if isinstance(stored, dict) else {"unreadable": str(text)}
        entries.append({"sequence": int(key), **body, "digest": digest})
    return entries


def _show(source: Source, output: str | None) -> Exit:
    entries = entries_of(source.config_maps)
    if output is not None:
        show(entries, Output(output))
    else:
        print_lines(render(entries, Style.of(sys.stdout), source.where))
    return Exit.OK


def render(entries: Sequence[Object], style: Style = PLAIN, where: str = "") -> list[str]:
    """One line an entry, oldest first. Nothing here says that the chain is whole: that is what verify is for."""
    if not entries:
        return [f"The ledger of {where} has no entries yet."]
    titles = ("#", "AT", "REVISION", "TRY", "STEP", "ENTRY", "BY", "WHAT")
    rows = [[style.paint(title, "dim") for title in titles]]
    for entry in entries:
        key = entry.get("key") or {}
        at = parse_time(entry.get("at"))
        kind = clean(key.get("kind", "unreadable"))
        rows.append(
            [
                str(entry["sequence"]),
                "–" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z",
                clean(key.get("revision", "")),
                str(key.get("attempt", "")),
                _step(key.get("step", "")),
                style.paint(kind, *_LOOKS.get(kind, ())) + (" (late)" if entry.get("late") else ""),
                shorten((entry.get("actor") or {}).get("name", ""), 32),
                shorten(told(entry), 160),
            ]
        )
    return table(rows)


_LOOKS = {
    "Back": ("red",),
    "Breach": ("red",),
    "Completed": ("green",),
    "Escalated": ("yellow",),
    "Held": ("yellow",),
    "Promoted": ("green",),
    "Restored": ("red",),
    "Restoring": ("red",),
    "RolledBack": ("red",),
}


def _step(step: object) -> str:
    """Counted from 1, as everywhere where people read."""
    text = clean(step)
    return str(int(text) + 1) if text.isascii() and text.isdecimal() else text


def told(entry: Object) -> str:
    """What an entry says, in one line."""
    body = entry.get("body") or {}
    verdict, spec = body.get("verdict"), body.get("spec") or {}
    if verdict:
        return f"{verdict.get('decision', '')} {verdict.get('reason', '')}: {verdict.get('message', '')}"
    if "decision" in spec or "order" in spec:
        until = f" (until {spec['expiresAt']})" if spec.get("expiresAt") else ""
        return f"{spec.get('decision') or spec.get('order')}{until}: {spec.get('reason', '')}"
    if "weight" in body:
        return f"{body['weight']} % to the canary"
    if "generation" in body:
        return f"{body.get('name', '')}@{body['generation']}"
    if "canary" in body:
        stable, canary = (body.get(arm) or {} for arm in ("stable", "canary"))
        images = ", ".join(map(str, canary.get("images") or []))
        return f"{images}, beside stable {stable.get('revision', '')}"
    if "stable" in body:
        return f"stable is {(body['stable'] or {}).get('revision', '')}"
    return str(body.get("message") or body.get("reason") or entry.get("unreadable", ""))


def _walk(source: Source) -> "tuple[list[Segment], VerifyResult]":
    """The segments, and what walking the chain found; heads that were seen before must be in it."""
    from gatewright_analysis.ledger import Head, Segment, segment_index, verify

    segments = []
    for config_map in source.config_maps:
        name = str(config_map["metadata"].get("name"))
        index = segment_index(source.rollout, name)
        if index is None:
            raise GateError(
                f"ConfigMap {name} carries the label of this ledger, but is none of its segments."
            )
        segments.append(
            Segment.of(index, config_map.get("data"), sealed=bool(config_map.get("immutable", False)))
        )
    seen = source.head or {}
    heads = (
        [Head(int(seen.get("segment", 0)), int(seen.get("sequence", 0)), str(seen["head"]))]
        if seen.get("head")
        else []
    )
    return segments, verify(segments, heads=heads)


def verified_entries(source: Source) -> "tuple[Entry, ...]":
    """All entries. Raises GateError when the chain does not hold: nothing that stands in it could be believed."""
    _, result = _walk(source)
    if result.broken is not None:
        broken = {"segment": result.broken.segment, "key": result.broken.key, "why": result.broken.why}
        raise GateError(broken_sentence(broken, len(result.entries)), then=_look_at(source))
    return result.entries


def _verify(source: Source, wanted_head: str | None, *, output: Output) -> Exit:
    """Walk the chain; compare with the status' head and with `wanted_head`. Exit code 1 when it does not hold."""
    segments, result = _walk(source)
    broken = None
    if result.broken is not None:
        broken = {"segment": result.broken.segment, "key": result.broken.key, "why": result.broken.why}
    elif wanted_head is not None and all(entry.digest != wanted_head for entry in result.entries):
        last = result.head
        broken = {
            "segment": 0 if last is None else last.segment,
            "key": "",
            "why": f"no entry has the digest {wanted_head}: it was changed or cut off, or the head is another ledger's",
        }
    head = None if result.head is None else {
        "segment": result.head.segment, "sequence": result.head.sequence, "digest": result.head.digest
    }  # fmt: skip
    report = {
        "ok": broken is None,
        "rollout": source.rollout,
        "entries": len(result.entries),
        "segments": len(segments),
        "head": head,
        "statusHead": source.head or None,
        "unsealed": list(result.unsealed),
        "broken": broken,
    }
    if output.for_programs:
        show(report, output)
    elif broken is None:
        print_lines(verified(report, source, wanted_head))
    if broken is not None:
        sentence = broken_sentence(broken, len(result.entries))
        raise GateError(sentence, then=_look_at(source), reported=output.for_programs)
    return Exit.OK


def _look_at(source: Source) -> str:
    """Who wrote what there last stands in the managed fields."""
    namespaces = {str(each["metadata"].get("namespace") or "") for each in source.config_maps} - {""}
    where = f" -n {namespaces.pop()}" if len(namespaces) == 1 else ""
    return f"kubectl get configmaps{where} -l {LEDGER_LABEL}={source.rollout} -o yaml --show-managed-fields"


def broken_sentence(broken: Object, intact: int) -> str:
    place = f"segment {broken['segment']:04d}" + (f", entry {broken['key']}" if broken["key"] else "")
    before = f" The {intact} entries before it hold." if intact and broken["key"] else ""
    return f"The ledger is broken at {place}: {broken['why']}.{before}"


def verified(report: Object, source: Source, wanted_head: str | None) -> list[str]:
    """What holds, and what was not there to compare with."""
    head = report["head"]
    if head is None:
        return [f"The ledger of {source.where} has no entries yet; there is nothing to verify."]
    lines = [
        f"The ledger of {source.where} holds: {report['entries']} entries in {report['segments']} segments, "
        "each with the digest of the one before.",
        f"Head: entry {head['sequence']}, {head['digest']}",
    ]
    seen = source.head or {}
    if seen.get("head"):
        lines.append(f"The head in the Rollout's status, entry {seen.get('sequence', 0)}, is in it.")
    if wanted_head is not None:
        lines.append("The head that you gave is in it.")
    if not seen.get("head") and wanted_head is None:
        lines.append(
            "No head from elsewhere was there to compare with, so a cut end would not show: give --head."
        )
    return lines
