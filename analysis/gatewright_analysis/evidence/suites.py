"""Pushed result files of one suite → windows for the judge, and sentences on what was found. Pure.

    suite = Suite(wanted, t0, window_seconds, most_clusters)
    suite.see(found)               # each ConfigMap once, in any order
    window = suite.close(0)        # window by window
    suite.fault(unread=0)          # why there is nothing, or what is wrong beside what counts

A file belongs to the window in which its ConfigMap was created (before t0: to the first), so the same files give the
same windows after a restart. A window without a new file is empty, and not wrong: files come once.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from gatewright_analysis.evidence.model import Counts, Fault, JudgeIdentity, Window
from gatewright_analysis.evidence.pushed import (
    KIND_OF,
    Evidence,
    Found,
    Wanted,
    evidence_of,
    images_of,
    judge_of,
    of_these_images,
)
from gatewright_analysis.evidence.windows import window_index
from gatewright_analysis.kinds.run import GateRunSpec
from gatewright_analysis.reasons import Reason
from gatewright_analysis.results import EvidenceRecord, RecordKind
from gatewright_analysis.task import CheckTask

_SHOWN = 3
"""Files, images or worlds that a sentence names; the rest is a number."""
_KIND_FLAG = {
    RecordKind.SAMPLES: "",
    RecordKind.SCORES: " --kind scores",
    RecordKind.PAIRS: " --paired-with STABLE_FILE",
}


def wanted(task: CheckTask, spec: GateRunSpec, namespace: str) -> Wanted:
    """What the check of `task` counts at the gate of `spec`; `namespace` holds the files. Raises ValueError for a check
    that reads none."""
    entry = task.check.evidence_at(task.stage)
    if entry is None or entry.suite is None:
        raise ValueError(f"check {task.check.id} reads no result files at stage {task.stage}")
    kind = KIND_OF[entry.kind]
    windows = (window for prior in task.prior for window in prior.windows)
    return Wanted(
        suite=entry.suite,
        kind=kind,
        images=images_of(spec.images),
        world=spec.world,
        namespace=namespace,
        counted=frozenset(digest for prior in task.prior for digest in prior.files),
        scored=frozenset(own.key for window in windows for own in window.clusters)
        if kind is RecordKind.SCORES
        else frozenset(),
        judge=next((prior.judge for prior in task.prior if prior.judge is not None), None),
    )


def drift(pinned: JudgeIdentity, by: str, found: JudgeIdentity, name: str) -> str:
    """What differs between the judge that this check rests on and that of the file `name`, as a sentence without its
    full stop; empty: nothing. `by` says where the first was seen."""
    if found == pinned:
        return ""
    return (
        f"two judges gave the verdicts of one check: {by} is judged by {pinned}, and ConfigMap {name} by {found}, so "
        "what the one found says nothing about the other: delete the files of the judge that no longer counts, then a "
        "Retry judges anew"
    )


class Suite:
    """The files of one suite, folded window by window. What is asked of it never depends on the order of `see`."""

    def __init__(self, wanted: Wanted, *, t0: float, window: float, most_clusters: int) -> None:
        """`t0` in Unix seconds, `window` in seconds; `most_clusters` is what the stored evidence has room for."""
        self._wanted = wanted
        self._t0 = t0
        self._window = window
        self._room = most_clusters
        self._waiting: list[tuple[float, str, str, EvidenceRecord]] = []
        self._damaged: dict[str, str] = {}
        self._other_kinds: Counter[str] = Counter()
        self._other_images: Counter[str] = Counter()
        self._other_worlds: Counter[str] = Counter()
        self._again = 0
        self._drift = ""
        self._counted = set(wanted.counted)
        self._scored = set(wanted.scored)
        self._pinned_by = "an earlier attempt"
        self._pinned = wanted.judge
        self._used = 0
        self.files: tuple[str, ...] = ()
        """sha256 of the records that were counted, and of the files that they were made of."""
        self.judge: JudgeIdentity | None = None
        """Of the files that were counted; None while there are none."""
        self._seeds: set[int | None] = set()

    @property
    def seed(self) -> int | None:
        """That of all files that were counted, where they agree."""
        return next(iter(self._seeds)) if len(self._seeds) == 1 else None

    def see(self, found: Found) -> None:
        """One more ConfigMap of the suite."""
        record, asked = found.record, self._wanted
        if record is None:
            self._damaged[found.name] = found.damage
        elif record.kind is not asked.kind:
            self._other_kinds[record.kind.value] += 1
        elif not of_these_images(record, asked):
            self._other_images[_images(record)] += 1
        elif record.subject.world != dict(asked.world):
            self._other_worlds[_world(record.subject.world)] += 1
        else:
            self._waiting.append((found.created, found.digest, found.name, record))

    def close(self, index: int) -> Window:
        """The window `index`: all that was created by its end and not counted before."""
        due = sorted(
            (one for one in self._waiting if max(0, self._index(one[0])) <= index), key=lambda one: one[:3]
        )
        self._waiting = [one for one in self._waiting if max(0, self._index(one[0])) > index]
        parts: list[Evidence] = []
        for _, digest, name, record in due:
            part = self._take(digest, name, record)
            if part is not None:
                parts.append(part)
        if self._drift:
            # From here on nothing counts, for no later window can tell which of the judges is right.
            return Window(index, Counts(0, 0), fault=Fault(Reason.WORLD_DRIFTED, self._drift))
        return Window(
            index,
            sum((part.counts for part in parts), Counts(0, 0)),
            missing=sum(part.missing for part in parts),
            clusters=tuple(own for part in parts for own in part.clusters),
            scores=tuple(score for part in parts for score in part.scores),
        )

    def fault(self, *, unread: int = 0) -> Fault | None:
        """Why nothing is counted, or what is wrong beside what is; `unread`: older files that were not looked at."""
        if self._drift:
            return Fault(Reason.WORLD_DRIFTED, self._drift)
        beside = [*self._damage(), *_unread(unread)]
        if self._used:
            return Fault(Reason.RESULT_FILE_DAMAGED, "; ".join(beside)) if beside else None
        return Fault(Reason.NO_RESULT_FILE, "; ".join([self._nothing(), *self._others(), *beside]))

    def _index(self, created: float) -> int:
        return window_index(created - self._t0, self._window)

    def _take(self, digest: str, name: str, record: EvidenceRecord) -> Evidence | None:
        own = {digest, record.source.digest}
        if own & self._counted:
            self._again += 1
            return None
        judge = judge_of(record)
        if self._pinned is None:
            self._pinned, self._pinned_by = judge, f"ConfigMap {name}"
        self._drift = self._drift or drift(self._pinned, self._pinned_by, judge, name)
        if self._drift:
            return None
        if record.clusters > self._room:
            self._damaged[name] = (
                f"its {record.clusters:,} items are more than there is room for beside the others"
            )
            return None
        self._room -= record.clusters
        self._counted |= own
        self._used += 1
        self.files += (digest, record.source.digest)
        self.judge = judge
        self._seeds.add(record.seed)
        part = evidence_of(record, self._scored)
        if record.kind is RecordKind.SCORES:
            self._scored |= {cluster.key for cluster in part.clusters}
        return part

    def _nothing(self) -> str:
        asked = self._wanted
        known = next(iter(asked.images.items()), None)
        if known is None:
            return (
                f"no file of the suite {asked.suite} can be told to be of this version, because its nodes report no image "
                "digests and its template pins none: pin the images by digest"
            )
        image = f"{known[1].partition('@')[0]}@{known[0]}"
        world = "".join(
            f" --world {key}={_clean(value)}" for key, value in sorted(asked.world.items())[:_SHOWN]
        )
        return (
            f"no result file of the suite {asked.suite} was pushed for this version: `gatewright evidence push FILE "
            f"--suite {asked.suite}{_KIND_FLAG[asked.kind]} --image {image}{world} -n {asked.namespace}`"
        )

    def _others(self) -> Iterable[str]:
        suite = f"of the suite {self._wanted.suite}"
        if self._other_images:
            yield _speak(self._other_images, f"{suite} {{speak}} of another image: ")
        if self._other_worlds:
            own = _world(self._wanted.world)
            told = _speak(self._other_worlds, f"{suite} {{speak}} of another world: ")
            yield f"{told} (the pod template declares {own})"
        if self._other_kinds:
            yield _speak(self._other_kinds, f"{suite} {{hold}} another kind than {self._wanted.kind}: ")
        if self._again:
            yield f"{_files(self._again)} {suite} {'was' if self._again == 1 else 'were'} counted before"

    def _damage(self) -> Iterable[str]:
        for name in sorted(self._damaged)[:_SHOWN]:
            yield f"ConfigMap {name} can't be used: {self._damaged[name]}"
        if len(self._damaged) > _SHOWN:
            yield f"nor can {len(self._damaged) - _SHOWN} more"


def _unread(count: int) -> Iterable[str]:
    if count:
        yield f"{_files(count)} older than the newest were not read"


def _speak(found: Mapping[str, int], middle: str) -> str:
    """`2 files of the suite S speak of another image: sha256:ab…, sha256:cd…`"""
    total = sum(found.values())
    one = total == 1
    verbs = {"speak": "speaks" if one else "speak", "hold": "holds" if one else "hold"}
    named = sorted(found)
    rest = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
    return f"{_files(total)} {middle.format(**verbs)}{', '.join(named[:_SHOWN])}{rest}"


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _images(record: EvidenceRecord) -> str:
    named = [f"{digest[:19]}…" for digest in record.subject.images[:_SHOWN]]
    more = " and more" if len(record.subject.images) > _SHOWN else ""
    return "+".join(named) + more if named else "none is named"


def _world(declared: Mapping[str, str]) -> str:
    pairs = [f"{key}={_clean(value)}" for key, value in sorted(declared.items())]
    more = " and more" if len(pairs) > _SHOWN else ""
    return " ".join(pairs[:_SHOWN]) + more if pairs else "nothing"


def _clean(value: str) -> str:
    shown = "".join(char if char.isprintable() else "?" for char in value)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
