"""Whether a Rollout's checks can prove themselves at the traffic that its workload has had: the condition Feasible.

Asked while a Rollout is at rest, at most once an hour, and again when its contract or the Rollout has changed. What is
found is kept in memory only; a condition that stands is not rewritten until something else is known.
"""

import asyncio
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.promql import Matcher, arm_matchers, escape_regex
from gatewright_analysis.evidence.question import Answer, Expect, Question
from gatewright_analysis.evidence.streams import Part, written_selectors
from gatewright_analysis.feasibility import warnings
from gatewright_analysis.kinds.contract import Check
from gatewright_analysis.kinds.rollout import Phase
from gatewright_analysis.kinds.run import ArmRef
from gatewright_analysis.kinds.source import Arms, ArmsBy, MetricSource
from gatewright_analysis.planning.model import Plan
from gatewright_analysis.planning.plan import plan_contract
from gatewright_analysis.reasons import Reason
from gatewright_operator.plan.snapshot import Forecast, Snapshot
from gatewright_operator.sources import Sources

EVERY: Final = timedelta(hours=1)
RANGE: Final = timedelta(days=3)
YOUNG: Final = timedelta(seconds=30)
"""A workload younger than this has shown no rate yet."""
_AT_REST: Final = (Phase.IDLE, Phase.ROLLED_BACK)
_POD_HASHES: Final = "[a-z0-9]+-[a-z0-9]{5}"
"""Pods of any ReplicaSet of a Deployment: over three days it had several."""
_CHANGED: Final = 1.25
"""A rate that moved less is told as it was: the same findings write nothing."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found, for which contract and Rollout, and the rates it rests on."""

    of: tuple[str, str, int]
    at: datetime
    forecast: Forecast
    rates: tuple[tuple[str, float], ...] = ()
    findings: tuple[tuple[str, str, bool], ...] = ()


class Forecasts:
    """All Rollouts of one operator process."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._known: dict[tuple[str, str], _Known] = {}

    def forget(self, namespace: str, rollout: str) -> None:
        self._known.pop((namespace, rollout), None)

    def known(self, s: Snapshot) -> Forecast | None:
        """What was found for the contract and the Rollout as they are; None before it was asked."""
        found = self._known.get(_key(s))
        return found.forecast if found is not None and found.of == _of(s) else None

    def due_in(self, s: Snapshot) -> float | None:
        """Seconds until it is to be asked; None while the Rollout is not at rest, or can't start anyway."""
        deployment = s.deployment
        if s.rollout.status.phase not in _AT_REST or s.contract is None or s.findings or deployment is None:
            return None
        found = self._known.get(_key(s))
        wait = timedelta() if found is None or found.of != _of(s) else found.at + EVERY - s.now
        if deployment.created_at is not None:
            wait = max(wait, deployment.created_at + YOUNG - s.now)
        return max(0.0, wait.total_seconds())

    async def ask(self, s: Snapshot) -> bool:
        """Asks the sources; whether what is known has changed."""
        assert s.contract is not None
        range_ = RANGE
        if s.deployment is not None and s.deployment.created_at is not None:
            range_ = min(RANGE, max(YOUNG, s.now - s.deployment.created_at))
        questions = {
            c.id: q for c in s.contract.spec.checks if (q := self._question(c, s, range_)) is not None
        }
        answers = await self._sources.read_all(set(questions.values()))
        rates, faults = {}, []
        for check, question in questions.items():
            answer = answers[question]
            events = _value(answer)
            if events is None:
                faults.append(
                    f"{check}: {answer.detail if isinstance(answer, Fault) else 'no number'}".rstrip(".")
                )
            else:
                rates[check] = events / (range_.total_seconds() / 60)
        # Not on the event loop: powers of many gates take a moment.
        found = await asyncio.to_thread(plan_contract, s.contract.spec, s.rollout.spec, rates)
        return self._keep(s, found, rates, faults)

    def _keep(self, s: Snapshot, found: Plan, rates: dict[str, float], faults: list[str]) -> bool:
        before = self._known.get(_key(s))
        of, findings = _of(s), tuple((p.check, p.gate, p.never) for p in found.problems)
        new = _Known(of, s.now, self._forecast(s, found, faults), tuple(sorted(rates.items())), findings)
        if before is not None and before.of == of and before.findings == findings and _alike(before, new):
            self._known[_key(s)] = _Known(of, s.now, before.forecast, before.rates, findings)
            return False
        self._known[_key(s)] = new
        return before is None or before.forecast != new.forecast

    def _forecast(self, s: Snapshot, found: Plan, faults: list[str]) -> Forecast:
        never = [p for p in found.problems if p.never]
        if never:
            more = f" And {len(never) - 1} more: gatewright plan tells all." if len(never) > 1 else ""
            reason = Reason.TRAFFIC_TOO_LOW if never[0].slow else Reason.NEVER_PASSES
            return Forecast("False", reason, f"{never[0].sentence}{more}")
        if faults:
            sentence = f"The traffic of the last days is not known, so nothing can be said of it: {'; '.join(faults)}."
            return Forecast("Unknown", Reason.RATE_UNKNOWN, sentence)
        assert s.contract is not None
        sources = {name: source for name in _names(s) if (source := self._sources.get(name)) is not None}
        notes = [p.sentence for p in found.problems if p.slow]
        notes += [sentence for _, sentence in warnings(s.contract.spec, s.rollout.spec, sources)]
        notes += [p.sentence for p in found.problems if not p.slow]
        return Forecast("True", Reason.FEASIBLE, notes[0] if notes else "")

    def _question(self, check: Check, s: Snapshot, range_: timedelta) -> Question | None:
        """The increase of all events of the workload over `range_`; None for a check that counts none at a Prometheus."""
        entry = next((e for e in check.evidence if e.from_counters), None)
        source = None if entry is None or entry.source is None else self._sources.get(entry.source)
        if entry is None or source is None or source.spec.arms is None:
            return None
        seconds = int(range_.total_seconds())
        try:
            matchers = _matchers(source, source.spec.arms, s)
            totals = [
                sel.with_matchers(*matchers) for part, sel in written_selectors(entry) if part is Part.TOTAL
            ]
        except ValueError:
            return None
        query = " + ".join(f"sum(increase({selector.render()}[{seconds}s]))" for selector in totals)
        now = round(s.now.timestamp(), 3)
        return Question(source.metadata.name, query, now, now - seconds, Expect.VALUE)


def _matchers(source: MetricSource, arms: Arms, s: Snapshot) -> tuple[Matcher, Matcher]:
    """What the workload's own pods have in common at this source."""
    metadata, name = s.rollout.metadata, s.rollout.spec.workload_ref.name
    if arms.by is ArmsBy.POD_NAME:
        pods = Matcher(arms.label, "=~", f"{escape_regex(name)}-{_POD_HASHES}")
        return Matcher(arms.namespace_label, "=", metadata.namespace), pods
    gateway, stable = s.rollout.spec.traffic.gateway_api, s.rollout.status.stable
    arm = ArmRef(
        pod_prefix=name,
        revision="" if stable is None else stable.pod_template_hash,
        service="" if gateway is None else gateway.stable_service,
        workload=name,
    )
    return arm_matchers(arms, arm, metadata.namespace)


def _value(answer: Answer) -> float | None:
    if isinstance(answer, Fault) or len(answer.series) != 1 or not answer.series[0].samples:
        return None
    return max(0.0, answer.series[0].samples[-1].value)


def _names(s: Snapshot) -> set[str]:
    assert s.contract is not None
    return {e.source for c in s.contract.spec.checks for e in c.evidence if e.source is not None}


def _key(s: Snapshot) -> tuple[str, str]:
    return s.rollout.metadata.namespace, s.rollout.metadata.name


def _of(s: Snapshot) -> tuple[str, str, int]:
    metadata = s.rollout.metadata
    return metadata.uid, "" if s.contract is None else s.contract.digest, metadata.generation


def _alike(before: _Known, new: _Known) -> bool:
    if before.forecast.status != new.forecast.status or len(before.rates) != len(new.rates):
        return False
    if not new.rates:
        return re.sub(r"\d+", "", before.forecast.message) == re.sub(r"\d+", "", new.forecast.message)
    pairs = zip(before.rates, new.rates, strict=True)
    return all(a[0] == b[0] and a[1] <= _CHANGED * b[1] and b[1] <= _CHANGED * a[1] for a, b in pairs)
