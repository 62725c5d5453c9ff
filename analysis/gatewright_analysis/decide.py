"""From the results of all checks of a gate to one verdict: PROMOTE, HOLD, ROLLBACK, or wait (statistics.md
R3).

Nothing here trusts the order of results, nor a result's own word on what it may do: that is the contract's.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gatewright_analysis.evidence.model import Clock, Fault
from gatewright_analysis.explain import clip, seconds
from gatewright_analysis.kinds.contract import Check, GateContractSpec, OnBreach, OracleKind, Require, Stage
from gatewright_analysis.kinds.evidence import ValueScope
from gatewright_analysis.kinds.rollout import OnInconclusive
from gatewright_analysis.reasons import Reason
from gatewright_analysis.task import required
from gatewright_analysis.verdict import CheckResult, CheckStatus, Decision

_GRACE_WINDOWS = 2
"""A check may be pending so long after `maxDuration`, while its last window is on its way."""
_SATISFIED = {
    Require.PASS: (CheckStatus.PASS, CheckStatus.WAIVED),
    Require.NO_BREACH: (CheckStatus.PASS, CheckStatus.NOT_PROVEN, CheckStatus.WAIVED),
}
_FINAL = (CheckStatus.FAIL, CheckStatus.BELOW_THRESHOLD)
_PROVES = (CheckStatus.PASS, CheckStatus.WAIVED)
_SEVERITY = (
    Reason.TOTAL_FAILURE,
    Reason.BREACH_TWO_ARM,
    Reason.BREACH_ABSOLUTE,
    Reason.POD_FAILURE,
    Reason.JOB_FAILED,
    Reason.VALUE_OUTSIDE,
    Reason.SHARED_OUTAGE,
    Reason.FAILED_THRESHOLD,
    Reason.DRIFTED_TAIL,
    Reason.BELOW_THRESHOLD,
    Reason.LOW_TRAFFIC,
)
_RANK = {reason.value: rank for rank, reason in enumerate(_SEVERITY)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be done; `decision` is None while the gate goes on."""

    decision: Decision | None
    reason: Reason
    blocking: tuple[str, ...]
    """Ids of the checks that stop it, sorted: every one that a promotion still misses, and so every one that
    a waiver must name."""
    message: str
    """Why, what would change it, and by when."""


@dataclass(frozen=True, slots=True)
class _Judged:
    check: Check
    result: CheckResult | None
    require: Require
    """What the contract asks of the check at this gate."""

    @property
    def status(self) -> CheckStatus:
        """A check that was not judged is pending: unknown is never a pass."""
        return CheckStatus.PENDING if self.result is None else self.result.status

    @property
    def satisfied(self) -> bool:
        return self.status in _SATISFIED[self.require]

    @property
    def reason(self) -> str:
        return Reason.NO_DATA.value if self.result is None else self.result.reason

    @property
    def known_before(self) -> bool:
        """Its result was there before this gate looked at anything."""
        found = self.result
        return found is not None and (bool(found.cached_from) or found.reason == Reason.SAMPLES_EXHAUSTED)

    @property
    def gathers(self) -> bool:
        """A waiver covers it, and what it is covered for is not known yet: its evidence is still on the way."""
        found = self.result
        return found is not None and found.status is CheckStatus.WAIVED and found.found is CheckStatus.PENDING

    @property
    def sentence(self) -> str:
        said = "it was not judged" if self.result is None else self.result.message.rstrip(".")
        return f"{self.check.id}: {said}"


def decide(
    results: Iterable[CheckResult],
    contract: GateContractSpec,
    clock: Clock,
    *,
    expected: Collection[str],
    stage: Stage = Stage.CANARY,
    last_gate: bool = True,
    on_inconclusive: OnInconclusive = OnInconclusive.HOLD,
    drifted: str = "",
    world_unknown: Fault | None = None,
) -> Outcome:
    """The verdict on a gate of `stage` at which the checks `expected` judge; `last_gate`: none follows before 100 %.

    `drifted` says what of the world has changed since the attempt began, `world_unknown` why that is not known.

    A proven breach of a check that may roll back: ROLLBACK, at any time. A world or a judge that drifted, any other
    proven failure, or a planned look that is spent: HOLD, as soon as it is known; where a check's was known
    before the gate began, once no other check waits for evidence. Every check satisfied, `duration` over, and
    the world known to be the same: PROMOTE. Else, at the deadline: HOLD; else wait. With `on_inconclusive`
    Complete (a bake), evidence that never came ends in PROMOTE: its absence reverts nothing. A waiver stands for a proof
    and not for the evidence: a check that is waived is looked at as long as any other.

    Raises ValueError for results of a check that is not expected here, or two of one check.
    """
    judged = _match(results, contract, expected, stage, last_gate=last_gate)
    breached = [item for item in judged if _rolls_back(item, contract)]
    if breached:
        return _ended(Decision.ROLLBACK, breached, breached)
    if drifted:
        # No check is to blame, so there is none that an approval could waive: a Retry judges in the world as it is.
        return Outcome(Decision.HOLD, Reason.WORLD_DRIFTED, (), clip(drifted))
    open_ = [item for item in judged if not item.satisfied]
    final = [item for item in open_ if item.status in _FINAL or item.reason == Reason.WORLD_DRIFTED]
    lenient = on_inconclusive is OnInconclusive.COMPLETE
    stopping = [item for item in final if not (lenient and item.reason == Reason.LOW_TRAFFIC)]
    gathering = [item for item in judged if item.gathers]
    pending = bool(gathering) or any(item.status is CheckStatus.PENDING for item in open_)
    late = clock.now >= clock.max_duration + _GRACE_WINDOWS * clock.window
    at_deadline = clock.now >= clock.max_duration and (late or not pending)
    # What was known before the gate began does not keep the other checks from their evidence.
    waits = pending and not at_deadline and all(item.known_before for item in stopping)
    if stopping and not waits:
        return _ended(Decision.HOLD, stopping, open_, contract)
    # Under a waiver a breach that rolls back has the whole gate to show itself.
    if not open_ and clock.now >= clock.duration and (at_deadline or not gathering):
        complete = _complete(judged, lenient=lenient)
        if world_unknown is None or complete.decision is not Decision.PROMOTE:
            return complete
        return _unknown_world(judged, world_unknown, late=late, lenient=lenient)
    if open_ and at_deadline:
        if lenient:
            sentence = f"Completed without proof: {_list(open_)}."
            return Outcome(Decision.PROMOTE, Reason.NOT_PROVEN, (), clip(sentence))
        return _ended(Decision.HOLD, open_, open_, contract)
    left = seconds(max(0.0, clock.max_duration - clock.now))
    waited_for = open_ or gathering
    sentence = (
        f"Judging, {left} left at most: {_list(waited_for)}."
        if waited_for
        else f"All checks passed, {left} left."
    )
    return Outcome(None, Reason.GATE_RUNNING, _ids(open_), clip(sentence))


def apply_waivers(
    results: Iterable[CheckResult], waived: Collection[str], contract: GateContractSpec
) -> tuple[CheckResult, ...]:
    """The results with those that a person's waiver covers shown as waived.

    A waiver replaces a missing proof. A breach of a check that may roll back rolls back all the same; a
    breach of one that only holds stays waived. What passed, and what is only shown (Advisory), needs no
    waiver.
    """
    checks = {check.id: check for check in contract.checks}
    return tuple(
        result
        if result.id not in waived
        or result.id not in checks
        or checks[result.id].require is Require.ADVISORY
        or result.status in (CheckStatus.PASS, CheckStatus.WAIVED)
        or _rolls_back(_Judged(checks[result.id], result, checks[result.id].require), contract)
        else _waived(result)
        for result in results
    )


def _waived(result: CheckResult) -> CheckResult:
    found = {"found": result.status, "found_reason": result.reason}
    return result.model_copy(update={"status": CheckStatus.WAIVED, "reason": Reason.WAIVED, **found})


def _match(
    results: Iterable[CheckResult],
    contract: GateContractSpec,
    expected: Collection[str],
    stage: Stage,
    *,
    last_gate: bool,
) -> list[_Judged]:
    """Expected checks that can change something, by id, each with its result if there is one."""
    given: dict[str, CheckResult] = {}
    for result in results:
        if result.id not in expected:
            raise ValueError(
                f"check {result.id} does not judge at this gate: give its id in `expected`, or leave it out"
            )
        if result.id in given:
            raise ValueError(f"check {result.id} was judged twice: a gate needs one result of each check")
        given[result.id] = result
    checks = {check.id: check for check in contract.checks}
    unknown = sorted(set(expected) - checks.keys())
    if unknown:
        raise ValueError(
            f"the contract has no check {unknown[0]}: judge against the contract that the run pins"
        )
    return [
        _Judged(checks[id_], given.get(id_), required(checks[id_], stage, last_gate=last_gate))
        for id_ in sorted(expected)
        if checks[id_].require is not Require.ADVISORY
    ]


def _rolls_back(item: _Judged, contract: GateContractSpec) -> bool:
    return (
        item.result is not None
        and item.status is CheckStatus.FAIL
        and item.result.breach
        and item.check.oracle_kind is OracleKind.DETERMINISTIC
        and item.check.require is not Require.ADVISORY
        and contract.on_breach(item.check) is OnBreach.ROLLBACK
        and not _shared(item.check, item.result)
    )


def _shared(check: Check, result: CheckResult) -> bool:
    """A gauge of canary and stable together can't tell who moved it."""
    shared = any(e.value is not None and e.value.scope is ValueScope.WORKLOAD for e in check.evidence)
    return shared and result.reason == Reason.VALUE_OUTSIDE


def _unknown_world(judged: list[_Judged], fault: Fault, *, late: bool, lenient: bool) -> Outcome:
    """Every check passed, and nobody can say in which world: unknown is never a pass, and the evidence not void."""
    said = fault.detail.rstrip(".")
    if not late:
        waits = f"All checks passed; waiting until the world they passed in is known: {said}."
        return Outcome(None, Reason.GATE_RUNNING, (), clip(waits))
    if lenient:
        sentence = f"Completed without proof that the world is the same: {said}."
        return Outcome(Decision.PROMOTE, Reason.NOT_PROVEN, (), clip(sentence))
    sentence = (
        f"All checks passed, but whether the world is the one they began in is not known: {said}. "
        "Mend that, then a Retry judges anew; a person's approval promotes it as it is."
    )
    return Outcome(Decision.HOLD, fault.reason, _ids(judged), clip(sentence))


def _complete(judged: list[_Judged], *, lenient: bool) -> Outcome:
    proven = [item for item in judged if item.require is Require.PASS and item.status in _PROVES]
    # A check that pools over the rollout proves itself at the last gate.
    later = any(item.require is not item.check.require for item in judged)
    if not proven and not lenient and not later:
        # A gate at which nothing had to be proven proves nothing, whatever the contract's admission let
        # through.
        sentence = "No check at this gate has `require: Pass`, so nothing was proven; add one, or approve."
        return Outcome(Decision.HOLD, Reason.NOT_PROVEN, _ids(judged), sentence)
    waived = [item for item in judged if item.status is CheckStatus.WAIVED]
    if waived:
        ids = ", ".join(_ids(waived))
        return Outcome(Decision.PROMOTE, Reason.WAIVED, (), clip(f"Promoted with a waiver for {ids}."))
    weak = [item for item in judged if item.status is CheckStatus.NOT_PROVEN]
    sentence = "All checks passed." if not weak else f"No breach; not proven: {', '.join(_ids(weak))}."
    return Outcome(Decision.PROMOTE, Reason.ALL_CHECKS_PASSED, (), clip(sentence))


def _ended(
    decision: Decision,
    because: list[_Judged],
    blocking: list[_Judged],
    contract: GateContractSpec | None = None,
) -> Outcome:
    first = min(because, key=lambda item: (_RANK.get(item.reason, len(_RANK)), item.check.id))
    text = f"{_list(because)}."
    if contract is not None:
        text += " " + _way_out(because, contract)
    return Outcome(decision, Reason(first.reason), _ids(blocking), clip(text))


def _way_out(because: list[_Judged], contract: GateContractSpec) -> str:
    """What would change a HOLD, and by when."""
    wait = seconds(contract.hold.timeout.total_seconds())
    breach = any(item.result is not None and item.result.breach for item in because)
    reverts = breach and contract.hold.on_timeout is OnBreach.ROLLBACK
    end = "it is rolled back" if reverts else "it stays held"
    sampled = all(item.check.oracle_kind is OracleKind.SAMPLED and item.status in _FINAL for item in because)
    more = "a Retry gathers more evidence for this step"
    if sampled:
        more = "more samples come by the order MoreSamples alone"
    retry = "" if breach else f", {more}"
    ways = f"A person's approval promotes it, a rejection rolls it back{retry}"
    return f"{ways}; without either within {wait}, {end}."


def _list(items: list[_Judged]) -> str:
    """The sentences of a few checks; the whole of them stands with each check."""
    shown = "; ".join(item.sentence for item in items[:3])
    return shown + (f"; and {len(items) - 3} more" if len(items) > 3 else "")


def _ids(items: list[_Judged]) -> tuple[str, ...]:
    return tuple(item.check.id for item in items)
