"""One pushed result file, as it was found: its record, what of it is evidence, and whether it speaks of what is judged.

A record counts for a run when

* its suite is the one that the check names, and it is of the check's kind (samples, scores, paired);
* it names at least one image, and every image digest that it names is one of those that the run judges: of a container
  as its node reported it, or as the pod template pins it. Containers that it does not name (a proxy) don't matter;
* it declares exactly the world that the pod template declares. One that declares nothing counts for a run that declares
  nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gatewright_analysis.evidence.model import Cluster, Counts, JudgeIdentity
from gatewright_analysis.kinds.run import ImageRef
from gatewright_analysis.results import EvidenceRecord, ImportProblem, RecordKind, unpack

MOST_VERDICTS: Final = 10_000_000
"""Of one record; statistics.md R5 vouches for no more."""
_DIGEST = re.compile(r"(?:^|@)(sha256:[0-9a-f]{64})$")
KIND_OF: Final = {"samples": RecordKind.SAMPLES, "scores": RecordKind.SCORES, "paired": RecordKind.PAIRS}
"""Of each kind of evidence: the kind of record that it is made of."""


@dataclass(frozen=True, slots=True)
class Found:
    """A ConfigMap with the label of a suite: its record, or what is wrong with it."""

    name: str
    created: float
    """Unix seconds; the API server's word, in whole seconds."""
    record: EvidenceRecord | None = None
    digest: str = ""
    damage: str = ""
    """A sentence without its full stop; empty where there is a record."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a check at one gate counts, and what it has counted already."""

    suite: str
    kind: RecordKind
    images: Mapping[str, str]
    """Image by digest, of all containers that are judged; a template's own spelling."""
    world: Mapping[str, str]
    namespace: str
    """Where the files are looked for."""
    counted: frozenset[str] = frozenset()
    """sha256 of records and files that earlier attempts counted."""
    scored: frozenset[str] = frozenset()
    """Items that earlier attempts have a score of."""
    judge: JudgeIdentity | None = None
    """What gave the verdicts of the earlier attempts; None where there are none."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What of a record is judged: cluster by cluster, with the verdicts that are missing, also of unknown items."""

    counts: Counts
    clusters: tuple[Cluster, ...]
    missing: int
    scores: tuple[float, ...] = ()


def found(name: str, created: float, suite: str, digest: object, data: object) -> Found:
    """Reads what a ConfigMap holds: `digest` as its annotation says it, `data` the packed record. Never raises."""
    if not isinstance(digest, str) or not isinstance(data, str):
        missing = "record" if not isinstance(data, str) else "digest"
        return Found(name, created, damage=f"it has the label of a suite and no {missing}")
    try:
        record = unpack(data, digest)
        own = record.digest
    except (ImportProblem, ValueError, TypeError) as problem:
        return Found(name, created, damage=str(problem).rstrip("."))
    if own != digest:
        # Spelled otherwise, the same record would have many digests and could count as many times.
        return Found(name, created, damage="its record is not in the one form that has its digest")
    if record.suite != suite:
        return Found(name, created, damage=f"its label says suite {suite}, and its record {record.suite}")
    if record.expected > MOST_VERDICTS:
        said = f"it speaks of {record.expected:,} verdicts, and up to {MOST_VERDICTS:,} are read"
        return Found(name, created, damage=said)
    return Found(name, created, record, own)


def images_of(images: Iterable[ImageRef]) -> dict[str, str]:
    """Image by digest: as the node reported it, and as the template pins it. A tag alone says nothing."""
    told = [(found[1], image.image) for image in images for found in _digests(image)]
    return dict(told)


def _digests(image: ImageRef) -> list[re.Match[str]]:
    given = (_DIGEST.search(image.image), _DIGEST.search(image.digest))
    return [match for match in given if match is not None]


def of_these_images(record: EvidenceRecord, wanted: Wanted) -> bool:
    named = set(record.subject.images)
    return bool(named) and named <= wanted.images.keys()


def judge_of(record: EvidenceRecord) -> JudgeIdentity:
    judge = record.judge
    if judge is None:
        return JudgeIdentity()
    return JudgeIdentity(judge.id, judge.version or "", judge.fingerprint or "")


def evidence_of(record: EvidenceRecord, scored: frozenset[str] | set[str] = frozenset()) -> Evidence:
    """What is judged of a record; of scores, items in `scored` are left out: a second score of an item is no second item."""
    match record.kind:
        case RecordKind.SAMPLES:
            clusters = tuple(
                Cluster(key, good, int(bad), missing) for key, good, bad, missing in _four(record)
            )
            return Evidence(Counts(record.good, record.bad), clusters, record.missing)
        case RecordKind.PAIRS:
            pairs = (item for item in record.items if len(item) == 5)
            # A pair of equals says nothing, and is no item of which something is known.
            clusters = tuple(
                Cluster(key, wins, losses, missing)
                for key, wins, losses, _, missing in pairs
                if wins + losses + missing
            )
            return Evidence(Counts(record.good, record.bad), clusters, record.missing)
        case RecordKind.SCORES:
            return _scores(record, scored)


def _scores(record: EvidenceRecord, scored: frozenset[str] | set[str]) -> Evidence:
    """The mean of each item is one score (statistics.md 4.2).

    What an item lacks counts twice against a pass, as a score of 0 inside its mean and as a part of a missing item, so
    that a missing verdict never helps; in units of items, so that 5 % of the verdicts are 5 % here.
    """
    scores: list[float] = []
    clusters: list[Cluster] = []
    lost, unknown = 0.0, record.missing
    for key, n, total, missing in _four(record):
        unknown -= missing
        if key in scored:
            continue
        lost += missing / (n + missing)
        clusters.append(Cluster(key, 0, 0, missing))
        if n:
            scores.append(round(min(1.0, total / (n + missing)), 6))
    return Evidence(Counts(0, 0), tuple(clusters), unknown + _up(lost), tuple(scores))


def _up(value: float) -> int:
    """Rounded up, but for the noise of adding thirds."""
    whole = round(value)
    return whole if abs(value - whole) < 1e-9 else int(value) + 1


def _four(record: EvidenceRecord) -> Iterable[tuple[str, int, float, int]]:
    return (item for item in record.items if len(item) == 4)
