"""A stored record gives the judgement again that the evidence gave: number by number, for any evidence.

About 4 s: seven checks of evidence are drawn twice for each example.
"""

from dataclasses import replace
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gatewright_analysis.decide import decide
from gatewright_analysis.evidence.model import (
    Clock,
    Cluster,
    Counts,
    Fault,
    JobFacts,
    JobPhase,
    PodFacts,
    Tick,
    Window,
)
from gatewright_analysis.evidence.packed import encode, pack, unpack
from gatewright_analysis.evidence.record import CheckRecord, PriorRecord, RunRecord, read
from gatewright_analysis.judge import CheckEvidence, judge
from gatewright_analysis.kinds.contract import Stage
from gatewright_analysis.reasons import Reason
from gatewright_analysis.replay import Evidence, judge_again
from gatewright_analysis.task import CheckTask, Prior
from tests.judging import check, contract, pods, sampled

SCORES = {
    **sampled("rubric"),
    "evidence": [{"stages": ["Canary"], "scores": {"source": "ci", "suite": "rubric"}}],
}
VALUE = {"source": "p", "query": "max(fds{$arm})", "max": 9, "spacing": "1s", "minWindows": 3}
GAUGE = {"id": "files", "oracleKind": "Deterministic", "evidence": [{"stages": ["Canary"], "value": VALUE}]}
JOB = {"id": "smoke", "oracleKind": "Deterministic", "limit": {"maxBadRatio": 0.1},
       "evidence": [{"stages": ["Canary"], "job": {"cronJob": "smoke", "report": "Counts"}}]}  # fmt: skip
SPEC = contract(
    check(versusStable={}), check("pooled", pool="Rollout"), sampled(), SCORES, GAUGE, pods(), JOB
)
FAULTS = st.none() | st.sampled_from(
    [Fault(Reason.SCRAPE_GAP, "a target was not scraped"), Fault(Reason.NO_DATA, "ß")]
)
SMALL = st.integers(0, 60)
COUNTS = st.builds(Counts, SMALL, st.integers(0, 8) | SMALL)
MANY = st.integers(0, 10**9)


@st.composite
def windows(draw: st.DrawFn, kind: str) -> tuple[Window, ...]:
    found, index = [], 0
    for _ in range(draw(st.integers(0, 8))):
        index += draw(st.integers(0, 1))
        fault, missing = draw(FAULTS), draw(st.sampled_from([0, 0, 1]))
        window = Window(index, draw(COUNTS), draw(COUNTS), missing, fault, draw(st.integers(0, 1)))
        if kind == "samples":
            clusters = tuple(
                Cluster(key, draw(SMALL), draw(SMALL)) for key in draw(st.sets(st.sampled_from("abc")))
            )
            good, bad = sum(c.good for c in clusters), sum(c.bad for c in clusters)
            window = replace(
                window, clusters=clusters, canary=Counts(good, bad) if clusters else window.canary
            )
        if kind == "scores":
            scores = draw(st.lists(st.floats(0, 1), max_size=4))
            window = replace(window, canary=Counts(0, 0), scores=tuple(scores))
        if kind == "value":
            value = draw(st.none() | st.floats(-1e6, 1e6) | st.integers(0, 12).map(float))
            window = Window(index, Counts(0, 0), value=value, fault=fault)
        found.append(window)
        index += 1
    return tuple(found)


@st.composite
def records(draw: st.DrawFn) -> tuple[CheckRecord, ...]:
    """One of each check of the contract, in its order."""
    ticks = tuple(
        Tick(5.0 * k + 5, draw(COUNTS), draw(COUNTS)) for k in range(draw(st.sampled_from([0, 0, 8])))
    )
    fault, pending = draw(FAULTS), draw(st.booleans())
    found = [CheckRecord(windows=draw(windows("")), ticks=ticks, fault=fault, window_pending=pending)]
    found += [CheckRecord(windows=draw(windows(kind))) for kind in ("", "samples", "scores", "value")]
    facts = PodFacts(
        2, draw(st.integers(0, 2)), draw(st.integers(0, 3)), ready_throughout=draw(st.booleans())
    )
    found.append(CheckRecord(pods=draw(st.none() | st.just(facts))))
    job = JobFacts("smoke-1", draw(st.sampled_from(JobPhase)), 1, draw(MANY), draw(MANY), draw(FAULTS))
    found.append(CheckRecord(job=draw(st.none() | st.just(job))))
    return tuple(found)


def stored(record: RunRecord) -> dict[str, Any]:
    raw, digest = encode(record)
    annotations = {"gatewright.dev/evidence-digest": digest}
    return {"metadata": {"name": record.run, "annotations": annotations}, "binaryData": pack(raw, record.run)}


@settings(max_examples=10, phases=[Phase.generate])
@given(records(), records(), st.booleans(), st.floats(0, 300), st.booleans())
def test_what_is_stored_judges_as_what_was_seen(
    seen: tuple[CheckRecord, ...], before: tuple[CheckRecord, ...], used: bool, now: float, last: bool
) -> None:
    clock = Clock(now, 120.0, 180.0, 30.0)
    ids = [c.id for c in SPEC.checks]
    base = RunRecord(
        "run-0", "Canary", clock, 4, True, True, "Hold", checks=dict(zip(ids, before, strict=True))
    )
    config_map = stored(base)
    record = replace(
        base,
        run="run-1",
        last_gate=last,
        pooled_from=("run-0",),
        earlier_runs=("run-0",),
        expected=tuple(ids),
        evidence_of={"run-0": config_map["metadata"]["annotations"]["gatewright.dev/evidence-digest"]},
        checks={
            id_: replace(own, prior=(PriorRecord("run-0", used),)) for id_, own in zip(ids, seen, strict=True)
        },
    )
    assert read(unpack(stored(record))) == record, "it is read as it was written"

    direct = {}
    for one, own, old in zip(SPEC.checks, seen, before, strict=True):
        prior = (Prior(old.pooled_windows, used, "run-0"),)
        task = CheckTask(one, SPEC, Stage.CANARY, 4, True, prior, earlier=old.pooled_windows, last_gate=last)
        evidence = CheckEvidence(own.windows, own.ticks, own.pods, own.job, own.fault, own.window_pending)
        direct[one.id] = judge(task, evidence, clock)
    outcome = decide(direct.values(), SPEC, clock, expected=ids, last_gate=last)

    again, outcome_again = judge_again(read(unpack(stored(record))), SPEC, Evidence([config_map]))
    assert again == direct
    assert outcome_again == outcome
