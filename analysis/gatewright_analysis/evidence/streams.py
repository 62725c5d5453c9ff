"""The streams of one check: each selector of its evidence, for each arm, with how far it has been read."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from gatewright_analysis.evidence.buckets import histogram_selectors
from gatewright_analysis.evidence.promql import Selector, arm_matchers, parse_selector
from gatewright_analysis.evidence.question import Labels
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms


class ArmName(StrEnum):
    CANARY = "canary"
    STABLE = "stable"


class Part(StrEnum):
    """What a counter counts: all events, or the bad or the good ones among them; a native histogram, all and
    good ones."""

    TOTAL = "total"
    BAD = "bad"
    GOOD = "good"
    NATIVE = "native"

    @property
    def tells_all(self) -> bool:
        """Where it has series, its arm is counted."""
        return self in (Part.TOTAL, Part.NATIVE)


@dataclass(slots=True)
class Stream:
    """One selector for one arm. All times are Unix seconds."""

    arm: ArmName
    part: Part
    selector: Selector
    """With the arm's matchers."""
    written: Selector
    """As the contract has it."""
    answered: float
    """Samples up to here have been asked for without a hole."""
    final: float
    """Samples up to here can't change any more."""
    resume: float
    """Where the next question starts: behind `final`, so that what was stored late is seen."""
    seen: dict[Labels, float] = field(default_factory=dict)
    """Series that have been read, with the time of their first sample."""


def written_selectors(evidence: Evidence) -> tuple[tuple[Part, Selector], ...]:
    """The selectors of an evidence entry that is read from a metric source. Raises ValueError with a
    sentence.
    """
    if evidence.counts is not None:
        bad = [(Part.BAD, parse_selector(text)) for text in evidence.counts.bad]
        return (*bad, *((Part.TOTAL, parse_selector(text)) for text in evidence.counts.total))
    if evidence.burn_rate is not None:
        bad = [(Part.BAD, parse_selector(text)) for text in evidence.burn_rate.bad]
        return (*bad, *((Part.TOTAL, parse_selector(text)) for text in evidence.burn_rate.total))
    if evidence.latency is not None:
        latency = evidence.latency
        good, count = histogram_selectors(latency.histogram, latency.le)
        return (Part.GOOD, good), (Part.TOTAL, count), (Part.NATIVE, parse_selector(latency.histogram))
    samples = evidence.samples
    if samples is not None and samples.passed is not None and samples.total is not None:
        passed = [(Part.GOOD, parse_selector(text)) for text in samples.passed]
        return (*passed, *((Part.TOTAL, parse_selector(text)) for text in samples.total))
    raise ValueError(f"evidence of the kind {evidence.kind} is not read from a metric source")


def build_streams(
    evidence: Evidence, arms: Arms, refs: dict[ArmName, ArmRef], namespace: str, start: float
) -> list[Stream]:
    """All streams of an evidence entry, to be read from `start` on. Raises ValueError with a sentence."""
    return [
        Stream(
            arm,
            part,
            written.with_matchers(*arm_matchers(arms, ref, namespace)),
            written,
            start,
            start,
            start,
        )
        for arm, ref in refs.items()
        for part, written in written_selectors(evidence)
    ]


def rendered_digest(streams: list[Stream]) -> str:
    """sha256 over the rendered selectors with arm and part, one a line: what was asked, whatever the times."""
    lines = sorted(f"{stream.arm} {stream.part} {stream.selector.render()}" for stream in streams)
    return "sha256:" + hashlib.sha256("\n".join(lines).encode()).hexdigest()
