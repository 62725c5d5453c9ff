"""What people read: `status`, `review`, `holds`, `ledger show`. Pure functions from objects to lines."""

import json
from typing import Any

import pytest

from gatewright_analysis.reasons import Reason
from gatewright_cli import advice, holds, ledger, report, review
from gatewright_cli.case import Case, as_json
from gatewright_cli.checks import check_table
from gatewright_cli.output import PLAIN, Style, width
from gatewright_cli.view import View
from tests.unit.cli_objects import (
    CANARY,
    DIGEST,
    NOW,
    STABLE,
    at,
    canary,
    check,
    deployment,
    held,
    hold,
    rollout,
    run,
    stable,
)

PASSED = {
    "status": "pass",
    "reason": "Passed",
    "score": 0.9993,
    "ciLower": 0.9951,
    "ciUpper": 0.9999,
    "samples": 1812,
}
PODS = check(
    "pods", status="pass", reason="Passed", score=None, ciLower=None, ciUpper=None, threshold=None, samples=0,
    planned=None, statistics={"restarts": 0, "ready": 1},
)  # fmt: skip


def status_lines(view: View) -> list[str]:
    return report.render(view, NOW)


def held_view(**changes: Any) -> View:
    return View(held(**changes), deployment(), run(check(), check("p99-under-500ms", **PASSED), PODS))


def test_status_of_a_hold_is_one_screen_with_all_that_matters() -> None:
    assert status_lines(held_view()) == [
        "checkout in shop: Held",
        "  Held at step 2.",
        "",
        f"  stable   {STABLE}  shop/checkout:1.7.3",
        f"  canary   {CANARY}  shop/checkout:1.8.0, started by dev-1",
        "  weight   5 % on the canary",
        "  steps    2 of 4   ✓ 5 %  ▸ gate 10m  · 25 %  · gate 10m  · bake",
        "  verdict  HOLD BelowThreshold (step 2 of 4, 12m ago)",
        "",
        f"  gate checkout-{CANARY}-1-1: Decided",
        "    CHECK              STATUS           GOOD        PROVEN         THRESHOLD  N/PLANNED  REASON",
        "    ! http-success     below_threshold  99.48 %     98.71–99.80 %  99 %       812/1038   BelowThreshold",
        "    ✓ p99-under-500ms  pass             99.93 %     99.51–99.99 %  99 %       1812/1038  Passed",
        "    ✓ pods             pass             0 restarts  –              –          0          Passed",
        "",
        "  Held step 2 of 4, 12m ago; the wait ends in 20h.",
        "  Why, and what to do: kubectl gate review checkout -n shop",
        "",
        "  ledger  entry 4, sha256:ab12ab12ab12…",
    ]


def test_a_gauge_is_shown_by_its_newest_value() -> None:
    gauge = {"id": "queue", "status": "fail", "samples": 3, "planned": 10, "reason": "ValueOutside"}
    [_, line] = check_table([gauge | {"statistics": {"value": 1250.5}}])
    assert line.split() == ["✗", "queue", "fail", "value", "1250.5", "–", "–", "3/10", "ValueOutside"]


def test_status_says_when_it_is_older_than_the_workload() -> None:
    view = View(held(), deployment(generation=8))
    assert "  This is older than the workload: the operator has not seen its last change." in status_lines(
        view
    )
    assert report.summary(view)["workload"]["upToDate"] is False


def test_status_of_a_workload_that_may_not_be_read_claims_nothing_about_its_age() -> None:
    view = View(held(), None, None, ("deployments.apps is forbidden.",))
    assert report.summary(view)["workload"]["upToDate"] is None
    assert status_lines(view)[-1] == "  Not shown: deployments.apps is forbidden."


def test_status_of_a_running_gate_says_until_when() -> None:
    running = run(clock={"startsAt": at(minutes=-4), "duration": "10m", "maxDuration": "20m"})
    running["status"] = {"message": "Collecting."}
    lines = status_lines(View(held(phase="Progressing", hold=None), deployment(), running))
    assert f"  gate checkout-{CANARY}-1-1: running, no pass before 6m from now" in lines
    assert "    Collecting." in lines
    assert not any("review" in line for line in lines)


def test_status_of_a_rolled_back_release_names_the_next_command() -> None:
    rejected = {"revision": CANARY, "reason": "BreachAbsolute", "message": "10 % failed."}
    lines = status_lines(View(rollout(phase="RolledBack", stable=stable(), rejected=rejected), deployment()))
    assert "  To try the same revision again: kubectl gate retry checkout -n shop --reason '…'" in lines


def test_status_of_a_new_rollout_is_no_error() -> None:
    new = rollout()
    del new["status"]
    lines = status_lines(View(new, deployment()))
    assert lines[:2] == ["checkout in shop: New", "  The operator has not looked at this Rollout yet."]


def test_status_shows_conditions_only_where_they_say_something() -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "Held"},
        {"type": "Stalled", "status": "False", "reason": "Held"},
        {"type": "Held", "status": "True", "reason": "BelowThreshold"},
        {"type": "Guarded", "status": "True", "reason": "Guarded"},
    ]
    assert (
        status_lines(held_view(conditions=conditions))[-1]
        == "  conditions  Ready=False (Held), Held=True (BelowThreshold), Guarded"
    )


def test_a_long_list_of_steps_is_cut_around_the_present_one() -> None:
    steps = [
        step for weight in range(1, 21) for step in ({"setWeight": weight}, {"gate": {"duration": "1m"}})
    ]
    view = View(
        rollout(spec={"steps": steps}, phase="Progressing", currentStep=20, stable=stable(), canary=canary())
    )
    [line] = [line for line in status_lines(view) if line.startswith("  steps")]
    assert "21 of 40" in line
    assert "▸ 11 %" in line
    assert line.count("…") == 2
    assert width(line) <= 100


def test_colours_are_for_terminals_and_change_no_column() -> None:
    view = held_view()
    plain, coloured = report.render(view, NOW, PLAIN), report.render(view, NOW, Style(colour=True))
    assert [width(line) for line in plain] == [width(line) for line in coloured]
    assert not any("\x1b" in line for line in plain)
    assert any("\x1b[" in line for line in coloured)


def test_what_others_wrote_cannot_steer_the_terminal() -> None:
    evil = "ok\x1b[2J\x1b]0;title\x07\nAccepted: all is well"
    view = View(
        held(message=evil, hold=hold(message=evil, initiator="dev\x1b[31m", note=evil)),
        deployment(),
        run(check(message=evil, fixHint=evil)),
    )
    case = Case(view, None, ())
    for lines in (status_lines(view), review.render(case, NOW), holds.render([view.rollout], ["yes"], NOW)):
        assert not any("\x1b" in line or "\x07" in line or "\n" in line for line in lines)
        assert "Accepted: all is well" not in lines


def test_status_json_carries_the_numbers() -> None:
    shown = json.loads(json.dumps(report.summary(held_view())))
    assert (shown["phase"], shown["step"], shown["weight"]) == (
        "Held",
        {"index": 1, "count": 4, "attempt": 1},
        {"desired": 5, "actual": 5},
    )
    assert [each["id"] for each in shown["checks"]] == ["http-success", "p99-under-500ms", "pods"]
    assert shown["checks"][0]["ciLower"] == 0.9871
    assert shown["hold"]["evidenceDigest"] == DIGEST


def contract(**hold_policy: str) -> dict[str, Any]:
    return {"spec": {"hold": {"timeout": "24h", "onTimeout": "Hold", "maxWaiver": "72h", **hold_policy}}}


def test_review_tells_why_who_what_would_change_it_and_how_to_decide() -> None:
    view = View(held(), run=run(check()))
    assert review.render(Case(view, contract(), ()), NOW) == [
        "checkout in shop: held at step 2 of 4, 5 % of the traffic",
        "  http-success is neither proven nor disproven.",
        "",
        f"  change      revision {CANARY}  shop/checkout:1.8.0",
        "  started by  dev-1, proven by the API server",
        "  contract    checkout@3  sha256:ab12ab12ab12",
        "  attempt     1, the first run of this gate",
        "  held        12m ago; the wait ends in 20h, then it stays held",
        f"  evidence    checkout-{CANARY}-1-1  sha256:ab12ab12ab12",
        "",
        "What blocks",
        "  CHECK           STATUS           GOOD     PROVEN         THRESHOLD  N/PLANNED  REASON",
        "  ! http-success  below_threshold  99.48 %  98.71–99.80 %  99 %       812/1038   BelowThreshold",
        "    seen   99.48 % of 812 requests were good.",
        "    needs  a proven share of at least 99 %; proven is 98.71 %, or 226 more samples.",
        "    hint   Look at the error log of the canary pods.",
        "  Or judge it again: kubectl gate retry checkout -n shop --reason '…'",
        "",
        "What approving means",
        "  On your word the canary gets 25 % of the traffic and is judged again there. The waiver is for",
        "  these checks, this evidence, revision and world, at step 2 of 4 alone, until it expires, 72h at",
        "  most; a new breach of a check that rolls back still rolls back. Add --through 4 to waive them at",
        "  step 4 too, --through remaining for all that follow.",
        "",
        "Decide",
        "  kubectl gate approve checkout -n shop --expires 24h --reason '…'",
        "  kubectl gate request-changes checkout -n shop --reason '…'",
        "  kubectl gate reject checkout -n shop --reason '…'",
    ]


@pytest.mark.parametrize("count", [1, 3, 5, 64])
def test_a_review_fits_a_screen_of_100_by_40(count: int) -> None:
    long = "word " * 200
    checks = [check(f"{'c' * 50}-{n}", message=f"{n} {long}", fixHint=long) for n in range(count)]
    crowded = hold(
        blocking=[each["id"] for each in checks], message=long, note=long, initiator="u" * 250, breach=True
    )
    name = "n" * 30
    case = Case(
        View({**held(hold=crowded), "metadata": {"name": name, "namespace": "s" * 20}}, run=run(*checks)),
        contract(),
        (run(name="other", attempt=0),),
    )
    lines = review.render(case, NOW)
    assert len(lines) <= 40, "\n".join(lines)
    assert max(width(line) for line in lines) <= 100, "\n".join(line for line in lines if width(line) > 100)


@pytest.mark.parametrize("initiator", ["", "system:serviceaccount:argocd:argocd-application-controller"])
def test_an_unproven_initiator_is_called_unproven(initiator: str) -> None:
    case = Case(View(held(hold=hold(initiator=initiator)), run=run(check())), None, ())
    assert any(line.startswith("  started by  unproven: ") for line in review.render(case, NOW))
    assert as_json(case)["initiator"] == "unproven"


def test_a_review_offers_more_samples_where_the_verdict_does() -> None:
    """The operator knows how many attempts an artifact has had; a Retry would only give the answer again."""
    judged = run(check())
    judged["status"]["verdict"]["nextActions"] = ["kubectl gate more-samples checkout -n shop --reason '…'"]
    lines = review.render(Case(View(held(), run=judged), contract(), ()), NOW)
    assert lines[-1] == "  kubectl gate more-samples checkout -n shop --reason '…'"
    assert not [line for line in lines if "kubectl gate retry" in line]


def test_a_status_counts_revisions_in_a_row_once_one_did_not_stay() -> None:
    def shown(used: int) -> list[str]:
        status = held() | {}
        status["status"] = status["status"] | {"attempts": {"used": used, "budget": 3}}
        return [line for line in report.render(View(status), NOW) if "in a row" in line]

    assert shown(0) == []
    assert shown(2) == ["  attempts  2 of 3 revisions in a row were tried and did not stay"]


def test_a_review_counts_earlier_runs_of_the_same_gate() -> None:
    runs = (
        run(check(), name="first", attempt=1),
        run(check(), attempt=2),
        run(check(), name="other-step", step="3", attempt=1),
        run(check(), name="other-revision", revision=STABLE, attempt=1),
    )
    case = Case(View(held(attempt=2), run=runs[1]), None, runs)
    assert "  attempt     2; 1 earlier at this gate, the last: HOLD BelowThreshold, 12m ago" in review.render(
        case, NOW
    )
    assert [each["run"] for each in as_json(case)["earlierRuns"]] == ["first"]


def test_a_review_says_that_a_proven_breach_would_pass_and_what_the_end_of_the_wait_does() -> None:
    breach = Case(View(held(hold=hold(breach=True)), run=run(check())), contract(onTimeout="Rollback"), ())
    text = "\n".join(review.render(breach, NOW))
    assert "You would let a proven breach pass." in text
    assert "then it rolls back" in text
    harmless = Case(View(held(), run=run(check())), contract(onTimeout="Rollback"), ())
    assert "then it stays held" in "\n".join(review.render(harmless, NOW))


def test_a_hold_without_a_run_can_still_be_reviewed() -> None:
    case = Case(View(held(hold=hold(blocking=[], reason="GuardMissing"))), None, ())
    assert "  No single check: its gate run can't be read." in review.render(case, NOW)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("1", "the canary gets 25 % of the traffic and is judged again there"),
        ("3", "the new version goes to all pods and is watched while it bakes"),
        ("bake", "the release is finished as it is"),
    ],
)
def test_approving_says_where_the_change_goes(step: str, expected: str) -> None:
    assert as_json(Case(View(held(hold=hold(step=step))), None, ()))["onApproval"] == expected


def test_advice_speaks_in_the_words_of_the_one_enum() -> None:
    unknown = set(advice.BY_REASON) - {reason.value for reason in Reason}
    assert not unknown, f"no reason is called {sorted(unknown)}"


def test_advice_for_too_little_traffic_counts_what_is_missing() -> None:
    assert advice.advise(check(reason="LowTraffic", samples=12)).startswith(
        "1026 more samples (12 of 1038 so far)"
    )


def test_advice_after_the_planned_look_promises_nothing_of_a_few_more_samples() -> None:
    spent = check(statistics={"ticketUsed": True})
    assert advice.advise(spent) == "a proven share of at least 99 %; proven is 98.71 %"


def test_holds_are_listed_the_longest_first() -> None:
    old = held(
        hold=hold(
            since=at(days=-2),
            escalatedAt=at(minutes=-3),
            approvalsNeeded=2,
            approvals=[{"reviewer": "sre-1", "review": "r", "expiresAt": at(hours=1)}],
        )
    )
    old["metadata"]["name"] = "cart"
    found = holds.held_of([held(), old, rollout(phase="Progressing")])
    assert holds.render(found, ["no: you have approved", "yes"], NOW) == [
        "NAMESPACE  ROLLOUT   HELD  STEP    STARTED BY  WAIT ENDS                 APPROVED  MAY I                  WHY",
        "shop       cart      2d    2 of 4  dev-1       in 20h, escalated 3m ago  1/2       no: you have approved  BelowThreshold: http-success is neither proven nor disprove…",
        "shop       checkout  12m   2 of 4  dev-1       in 20h                    0/1       yes                    BelowThreshold: http-success is neither proven nor disprove…",
        "",
        "Look at one: kubectl gate review cart -n shop",
    ]


def test_the_wide_list_of_holds_says_what_the_clock_does_and_cuts_nothing() -> None:
    stopped = held(hold=hold(clockStoppedSince=at(minutes=-5), clockStoppedBy="prometheus is unreachable."))
    [_, line, *_] = holds.render([stopped], ["?"], NOW, wide=True)
    assert (
        f"{CANARY}  checkout-{CANARY}-1-1  clock stopped since 11:55Z (5m) because a source is down: prometheus is unreach"
        in line
    )
    assert "clock stopped" in line
    assert line.endswith("http-success is neither proven nor disproven.")


APPROVED_BY_ME = {"approvals": [{"reviewer": "sre-1", "review": "r", "expiresAt": at(hours=1)}]}


@pytest.mark.parametrize(
    ("changes", "allowed", "word"),
    [
        ({}, True, "yes"),
        ({}, False, "no"),
        ({}, None, "?"),
        ({"initiator": "sre-1"}, True, "no: you started it"),
        ({"initiator": "sre-1"}, False, "no"),
        (APPROVED_BY_ME, True, "no: you have approved"),
        ({"blocking": []}, True, "no: nothing to waive"),
    ],
)
def test_may_i_says_why_not(changes: dict[str, Any], allowed: bool | None, word: str) -> None:
    found = held(hold=hold(**changes))
    assert holds.may_i(found, allowed, "sre-1") == word
    told = holds.entry(found, word)
    assert told["mayApprove"] is {"yes": True, "?": None}.get(word, False)
    assert told["why"] == word.partition(": ")[2]


def test_no_holds_is_a_sentence() -> None:
    assert holds.render([], [], NOW, scope="anywhere") == ["Nothing is held anywhere."]


def entry(sequence: int, kind: str, **body: Any) -> dict[str, Any]:
    return {
        "sequence": sequence,
        "at": at(minutes=sequence),
        "key": {"revision": CANARY, "attempt": 1, "step": "1" if kind != "Started" else "", "kind": kind},
        "actor": {"kind": "operator", "name": "operator"},
        "late": kind == "Back",
        "body": body,
    }


def test_the_ledger_reads_as_a_story() -> None:
    spec = {"decision": "Approve", "reason": "logs are clean", "expiresAt": at(hours=1)}
    entries = [
        entry(0, "Started", canary=canary(), stable=stable()),
        entry(1, "WeightSet", weight=5, replicas=1),
        entry(2, "Verdict", verdict={"decision": "HOLD", "reason": "LowTraffic", "message": "12 of 1038."}),
        entry(3, "Review", name="checkout-x1", spec=spec),
        entry(4, "Back", reason="Rejected", message="Rejected by sre-1."),
        entry(5, "Contract", name="checkout", generation=3, spec={"checks": []}),
    ]
    lines = ledger.render(entries)
    assert [line.split("  ")[-1] for line in lines] == [
        "WHAT",
        f"shop/checkout:1.8.0, beside stable {STABLE}",
        "5 % to the canary",
        "HOLD LowTraffic: 12 of 1038.",
        f"Approve (until {at(hours=1)}): logs are clean",
        "Rejected by sre-1.",
        "checkout@3",
    ]
    assert "Back (late)" in lines[5]
