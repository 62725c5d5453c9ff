"""Recorded evidence as JSON lines, one for each check and look (docs/reference/backtest.md), read and checked.

A line that is not exactly what the format says is an error with its number: half-read evidence would give a verdict on
something else.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from gatewright_analysis.evidence.model import Cluster, Counts, Fault, Window
from gatewright_analysis.kinds.contract import GateContractSpec, Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import Bounds

LATEST_SECONDS: Final = 366 * 86_400
"""`t` counts from the begin of the gate; Unix times are a mistake that would otherwise look like a very long gate."""
MOST_EVENTS: Final = 10**9
"""Of one line: beyond it e-values lose digits."""
_USUAL_WINDOW: Final = 30.0
_NEEDED: Final = {
    "counts": ("good", "bad"),
    "latency": ("good", "bad"),
    "burnRate": ("good", "bad"),
    "samples": ("good", "bad"),
    "paired": ("good", "bad"),
    "scores": ("scores",),
    "value": ("value",),
}
_OPTIONAL: Final = {
    "counts": ("missing", "stable"),
    "latency": ("missing", "stable"),
    "burnRate": ("missing", "stable"),
    "samples": ("missing", "cluster"),
    "paired": ("missing", "cluster"),
    "scores": ("missing",),
    "value": (),
}


class UnreadableEvidence(ValueError):
    """A line can't be used; the message says which, and what was expected."""


@dataclass(slots=True)
class Recording:
    """What was recorded of one check: windows in order, and the seconds at which each of them closed."""

    windows: list[Window] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    has_stable: bool = False
    clustered: bool = False

    @property
    def usual_window(self) -> float:
        """The median distance of two looks, in seconds."""
        gaps = sorted(end - start for start, end in zip([0.0, *self.ends], self.ends, strict=False))
        return gaps[len(gaps) // 2] if gaps else _USUAL_WINDOW

    def after(self, warmup: float) -> "Recording":
        """Without the windows that began before `warmup`, in seconds after it."""
        if warmup <= 0:
            return self
        starts = [0.0, *self.ends]
        first = next((k for k in range(len(self.ends)) if starts[k] >= warmup - 1e-9), len(self.ends))
        windows = [_renumbered(window, k) for k, window in enumerate(self.windows[first:])]
        ends = [end - warmup for end in self.ends[first:]]
        return Recording(windows, ends, self.has_stable, self.clustered)

    def until(self, duration: float, max_duration: float) -> "Recording":
        """With one lost window at the deadline where it ends more than a window before `duration`: the rest of the gate
        is unknown, and must not pass by the part that was good."""
        if not self.ends or self.ends[-1] + self.usual_window > duration:
            return self
        known = f"the evidence ends at {self.ends[-1]:g} s, before the gate's duration of {duration:g} s"
        lost = Window(len(self.windows), Counts(0, 0), fault=Fault(Reason.NO_DATA, known))
        ends = [*self.ends, max_duration]
        return Recording([*self.windows, lost], ends, self.has_stable, self.clustered)

    def bounds(self, duration: float, max_duration: float) -> Bounds:
        return Bounds(duration, max_duration, self.usual_window, tuple(self.ends))


def read_lines(lines: Iterable[str], contract: GateContractSpec, stage: Stage) -> Mapping[str, Recording]:
    """Recordings by check id; checks without a line have none. Raises UnreadableEvidence."""
    reader = _Reader({c.id: _kind(contract, c.id, stage) for c in contract.checks}, stage)
    for number, text in enumerate(lines, 1):
        if text.strip():
            reader.take(number, text)
    return reader.found


def _kind(contract: GateContractSpec, check: str, stage: Stage) -> str:
    entry = next(c for c in contract.checks if c.id == check).evidence_at(stage)
    return "" if entry is None else entry.kind


class _Reader:
    """Takes line after line; `found` holds what they came to."""

    def __init__(self, kinds: Mapping[str, str], stage: Stage) -> None:
        self._kinds = kinds
        self._stage = stage
        self._number = 0
        self._newest = 0.0
        self._decoder = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=self._constant)
        self.found: dict[str, Recording] = {}

    def take(self, number: int, text: str) -> None:
        self._number = number
        try:
            body = self._decoder.decode(text.strip())
        except UnreadableEvidence:
            raise
        except (ValueError, RecursionError) as error:
            self._refuse(f"this is no JSON object ({error})")
        if not isinstance(body, dict):
            self._refuse("a line is one JSON object")
        check = body.get("check")
        if not isinstance(check, str) or check not in self._kinds:
            have = ", ".join(sorted(self._kinds))
            self._refuse(f"`check` is the id of a check of the contract ({have}), not {_shown(check)}")
        kind = self._kinds[check]
        if kind == "":
            self._refuse(
                f"the check {check} has no evidence for the stage {self._stage}: judge another --stage"
            )
        if kind not in _NEEDED:
            self._refuse(f"the check {check} rests on {kind}, of which no lines are recorded: leave it out")
        self._fields(check, kind, body)
        end = self._time(body["t"])
        recording = self.found.setdefault(check, Recording())
        window = self._window(kind, body, recording)
        self._place(check, recording, window, end)

    def _place(self, check: str, recording: Recording, window: Window, end: float) -> None:
        if not recording.ends or recording.ends[-1] != end:
            recording.windows.append(window)
            recording.ends.append(end)
            return
        before = recording.windows[-1]
        if not window.clusters:
            self._refuse(
                f"the check {check} has a line at t = {end:g} already: only lines of different `cluster` share a t"
            )
        if window.clusters[0].key in {own.key for own in before.clusters}:
            self._refuse(f"the cluster {window.clusters[0].key} stands twice at t = {end:g}")
        recording.windows[-1] = Window(
            before.index,
            before.canary + window.canary,
            missing=before.missing + window.missing,
            clusters=(*before.clusters, *window.clusters),
        )

    def _window(self, kind: str, body: Mapping[str, Any], recording: Recording) -> Window:
        index = len(recording.windows)
        missing = self._count("missing", body["missing"]) if "missing" in body else 0
        if kind == "value":
            return Window(index, Counts(0, 0), value=self._number_of("value", body["value"]))
        if kind == "scores":
            return Window(index, Counts(0, 0), missing=missing, scores=self._scores(body["scores"]))
        canary = Counts(self._count("good", body["good"]), self._count("bad", body["bad"]))
        clusters: tuple[Cluster, ...] = ()
        if "cluster" in body:
            key = body["cluster"]
            if not isinstance(key, str) or not key:
                self._refuse(f"`cluster` is a text that names the item, not {_shown(key)}")
            clusters = (Cluster(key, canary.good, canary.bad, missing),)
        self._alike("cluster", "cluster" in body, recording, first=recording.clustered, index=index)
        self._alike("stable", "stable" in body, recording, first=recording.has_stable, index=index)
        recording.clustered, recording.has_stable = "cluster" in body, "stable" in body
        stable = self._stable(body["stable"]) if "stable" in body else None
        return Window(index, canary, stable, missing=missing, clusters=clusters)

    def _stable(self, value: object) -> Counts:
        if self._stage is Stage.BAKE:
            self._refuse("at the stage Bake no stable version serves: leave out `stable`")
        if not isinstance(value, dict) or set(value) != {"good", "bad"}:
            self._refuse(f'`stable` is an object {{"good": …, "bad": …}}, not {_shown(value)}')
        return Counts(self._count("stable.good", value["good"]), self._count("stable.bad", value["bad"]))

    def _alike(self, name: str, has: bool, recording: Recording, *, first: bool, index: int) -> None:
        if index and has != first:
            other, this = ("has none", "has one") if has else ("has one", "has none")
            self._refuse(
                f"`{name}` stands on all lines of a check or on none: the line before {other}, this {this}"
            )

    def _fields(self, check: str, kind: str, body: Mapping[str, Any]) -> None:
        needed, optional = ("t", *_NEEDED[kind]), _OPTIONAL[kind]
        wanted = f"a line of {check} ({kind}) has check, {', '.join(needed)}"
        wanted += f" and perhaps {', '.join(optional)}" if optional else ""
        for name in needed:
            if name not in body:
                self._refuse(f"`{name}` is missing: {wanted}")
        for name in body:
            if name != "check" and name not in needed and name not in optional:
                self._refuse(f"`{name}` has no place here: {wanted}")

    def _time(self, value: object) -> float:
        end = self._number_of("t", value)
        if not 0 < end <= LATEST_SECONDS:
            self._refuse(
                f"`t` counts the seconds since the gate began, above 0 and at most a year, not {_shown(value)}"
            )
        if end < self._newest:
            self._refuse(f"time runs backwards: t = {end:g} after t = {self._newest:g}; sort the lines by t")
        self._newest = end
        return end

    def _number_of(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._refuse(f"`{name}` is a finite number, not {_shown(value)}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._refuse(f"`{name}` is a finite number, not {_shown(value)}")
        return number

    def _count(self, name: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_EVENTS:
            self._refuse(
                f"`{name}` counts events: a whole number from 0 to {MOST_EVENTS:,}, not {_shown(value)}"
            )
        return value

    def _scores(self, value: object) -> tuple[float, ...]:
        if not isinstance(value, list):
            self._refuse(f"`scores` is a list of numbers from 0 to 1, not {_shown(value)}")
        scores = tuple(self._number_of("scores", one) for one in value)
        for score in scores:
            if not 0 <= score <= 1:
                self._refuse(
                    f"a score is a number from 0 to 1, not {score:g}; one that is missing counts in `missing`"
                )
        return scores

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            self._refuse("a field stands twice in an object")
        return found

    def _constant(self, name: str) -> NoReturn:
        self._refuse(f"{name} is no number that can be judged; leave the line out, or count it as missing")

    def _refuse(self, why: str) -> NoReturn:
        raise UnreadableEvidence(f"line {self._number}: {why}.")


def _renumbered(window: Window, index: int) -> Window:
    return Window(
        index,
        window.canary,
        window.stable,
        missing=window.missing,
        fault=window.fault,
        resets=window.resets,
        clusters=window.clusters,
        scores=window.scores,
        value=window.value,
    )


def _shown(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
