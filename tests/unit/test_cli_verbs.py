"""explain, history, can-i and lint as a person meets them: what they print, and with which exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from gatewright_cli import can_i, explain, past
from gatewright_cli.errors import Exit, GateError, NotFound, UsageError
from gatewright_cli.kube import User
from gatewright_cli.main import kubectl_gate
from gatewright_cli.output import WIDTH, width
from gatewright_cli.view import View
from tests.unit.cli_objects import CANARY, NOW, OTHER, at, check, held, hold, rollout, run
from tests.unit.test_offline_rules import CONTRACT, ROLLOUT, SOURCE

ME = User("sre-1", ("sre",))
CHECK: dict[str, Any] = {
    "id": "http-success",
    "title": "Checkout answers without 5xx",
    "oracleKind": "Deterministic",
    "require": "Pass",
    "limit": {"maxBadRatio": 0.01},
    "versusStable": {"maxRatio": 1.25, "minIncrease": 0.001},
    "evidence": [
        {
            "stages": ["Canary", "Bake"],
            "counts": {
                "source": "prometheus",
                "bad": ['http_requests_total{code=~"5.."}'],
                "total": ["http_requests_total"],
            },
        }
    ],
    "fixHint": "Look at the error log of the canary pods.",
}


def contract(*checks: dict[str, Any], generation: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "gatewright.dev/v1alpha1",
        "metadata": {"name": "checkout", "namespace": "shop", "generation": generation},
        "spec": {"checks": list(checks), **spec},
    }


class Cluster:
    """Stands for the API server: a Rollout, its contract, its runs, and rights."""

    class flags:  # noqa: N801 - an attribute of a Kube
        repeated = " --context=prod"
        namespace = "shop"

    def __init__(
        self, found: dict[str, Any], contract_: Any = None, runs: Any = (), granted: Any = ()
    ) -> None:
        self.found, self.contract, self.runs, self.granted = found, contract_, list(runs), dict(granted)

    def rollout(self, name: str) -> dict[str, Any]:
        return self.found

    def whoami_and_rollout(self, name: str) -> tuple[User, dict[str, Any]]:
        return ME, self.found

    def get_all(self, paths: list[str]) -> list[Any]:
        return [{"items": self.runs} if "gateruns" in path else self.contract for path in paths]

    def allowed(self, asked: list[dict[str, str]]) -> list[bool | None]:
        return [self.granted.get(each["verb"], True) for each in asked]


def explained(cluster: Cluster, check_id: str = "http-success") -> list[str]:
    return explain.render(explain.read(cluster, "checkout", check_id), NOW)  # type: ignore[arg-type] - a fake


class TestExplain:
    def test_it_says_limit_evidence_samples_confidence_breach_hint_and_last_results(self) -> None:
        lines = explained(Cluster(held(), contract(CHECK), [run(check())]))
        text = "\n".join(lines)
        for said in (
            "http-success of checkout in shop: Checkout answers without 5xx",
            "contract     checkout@3",
            "asks for     at most 1 % bad, so at least 99 % good",
            "more than 1.25 × stable's bad share, and at least 0.10 % above it",
            "for a pass   Pass: must be proven on enough samples",
            "confidence   95 %",
            "planned, where a version half-way to perfect passes with",
            "on a breach  Rollback: all traffic goes back to stable",
            "hint         Look at the error log of the canary pods.",
            "evidence     Canary, Bake: bad and all events from the MetricSource prometheus",
            'bad        http_requests_total{code=~"5.."}',
            "12m ago  3f2a9c1d0e  2 of 4  below_threshold  99.48 %  98.71–99.80 %  812/1038   BelowThreshold",
        ):
            assert said in text
        assert max(map(width, lines)) <= WIDTH

    def test_the_planned_samples_are_those_of_the_plan(self) -> None:
        found = explain.read(Cluster(held(), contract(CHECK)), "checkout", "http-success")  # type: ignore[arg-type] - a fake
        assert found.planned is not None
        assert found.planned["nMin"] == 381
        assert found.planned["planned"] > found.planned["nMin"]

    def test_what_a_breach_does_is_the_contract_s_word_unless_the_check_has_its_own(self) -> None:
        for changes, mode, does in (
            ({}, "Rollback", "Rollback"),
            ({}, "Hold", "Hold"),
            ({"onBreach": "Hold"}, "Rollback", "Hold"),
            ({"oracleKind": "Sampled"}, "Rollback", "Hold"),
        ):
            case = explain.Case(held(), contract(failMode=mode), {**CHECK, **changes}, ())
            assert explain.on_breach(case) == does

    def test_results_are_the_newest_first_and_only_of_this_check(self) -> None:
        older = run(check(message="older"), check("other"), name="run-1")
        newer = run(check(message="newer"), name="run-2")
        newer["status"]["verdict"]["finishedAt"] = at(minutes=-2)
        undecided = run(name="run-3")
        undecided["status"] = {}
        results = explain.results_of([older, undecided, newer], "http-success")
        assert [result["message"] for _, result in results] == ["newer", "older"]

    def test_a_contract_that_was_edited_meanwhile_is_said(self) -> None:
        text = "\n".join(explained(Cluster(held(), contract(CHECK, generation=4), [run(check())])))
        assert "checkout@4; the release on its way is judged by @3" in text

    def test_a_check_that_is_not_there_names_those_that_are(self) -> None:
        with pytest.raises(NotFound, match="has no check cart; it has http-success") as missing:
            explained(Cluster(held(), contract(CHECK)), "cart")
        assert missing.value.then == "kubectl gate explain checkout/http-success -n shop --context=prod"

    def test_a_contract_that_is_not_there_is_said(self) -> None:
        with pytest.raises(NotFound, match="The GateContract checkout of Rollout checkout does not exist"):
            explained(Cluster(held(), NotFound("no")))
        with pytest.raises(GateError, match="forbidden"):
            explained(Cluster(held(), GateError("forbidden")))

    @pytest.mark.parametrize("words", ["http-success", "/x", "checkout/", ""])
    def test_a_check_is_named_with_its_rollout(self, words: str) -> None:
        with pytest.raises(UsageError, match="write ROLLOUT/CHECK"):
            explain.split(words)
        assert explain.split("rollout.gatewright.dev/checkout/x") == ("rollout.gatewright.dev/checkout", "x")

    @pytest.mark.parametrize(
        ("entry", "limit", "told"),
        [
            (
                {"value": {"source": "p", "query": "x", "max": 5}},
                "a value of at most 5",
                "the newest 10 readings",
            ),
            ({"pods": {}}, "with at most 0 restarts", "the canary's own pods"),
            ({"job": {"cronJob": "smoke", "report": "ExitCode"}}, "exit code 0", "the CronJob smoke"),
            ({"paired": {"source": "ci", "suite": "refunds"}}, "more wins than losses", "suite refunds"),
            (
                {"latency": {"source": "p", "histogram": "h", "le": 0.5}},
                "no limit of its own",
                "within 0.5 s",
            ),
            (
                {"burnRate": {"source": "p", "bad": [], "total": [], "objective": 0.999, "maxBurn": 10}},
                "at most 10 against 99.90 %: at most 1 % bad",
                "against an error budget",
            ),
        ],
    )
    def test_every_kind_of_evidence_has_words(self, entry: dict[str, Any], limit: str, told: str) -> None:
        assert limit in explain.limit_of({"evidence": [entry]})
        assert told in explain.evidence_of({"stages": ["Canary"], **entry})


def entry(
    sequence: int, kind: str, *, revision: str = CANARY, attempt: int = 1, step: str = "", **more: Any
) -> dict[str, Any]:
    actor = more.pop("actor", "operator")
    return {
        "sequence": sequence,
        "key": {"revision": revision, "attempt": attempt, "step": step, "kind": kind},
        "at": at(minutes=sequence),
        "actor": {"kind": "operator" if actor == "operator" else "user", "name": actor},
        "body": more,
    }


HELD = {
    "decision": "HOLD",
    "reason": "BelowThreshold",
    "message": "neither proven nor disproven",
    "runId": "r",
    "blocking": ["http"],
}
LEDGER = [
    entry(0, "Adopted", attempt=0, stable={"revision": "91bd22ac07"}),
    entry(1, "Started", canary={"images": ["shop/checkout:1.8.0"], "initiator": "dev-1"}),
    entry(2, "WeightSet", step="0", weight=5),
    entry(3, "Verdict", step="1", verdict=HELD),
    entry(4, "Review", step="1", actor="sre-1", spec={"decision": "Approve", "reason": "logs are clean", "expiresAt": at(hours=9)}),
    entry(5, "Promoted", reason="Promoted", message="All gates are passed or waived."),
    entry(6, "Completed", message="It is stable."),
    entry(7, "Started", revision=OTHER, attempt=2, canary={"images": ["shop/checkout:1.9.0"]}),
    entry(8, "Order", revision=OTHER, attempt=2, actor="sre-2", spec={"order": "Abort", "reason": "wrong branch"}),
    entry(9, "RolledBack", revision=OTHER, attempt=2, reason="Aborted", message="sre-2 aborted it."),
    entry(10, "Started", revision="5555555555", attempt=3, canary={"images": ["shop/checkout:2"]}),
]  # fmt: skip


class TestHistory:
    def test_attempts_come_newest_first_with_verdicts_people_and_ends(self) -> None:
        found = past.attempts(LEDGER)
        assert [(each.revision, each.number, each.initiator) for each in found] == [
            ("5555555555", 3, ""),
            (OTHER, 2, ""),
            (CANARY, 1, "dev-1"),
        ]
        assert [(e["kind"], e["said"], e["by"]) for e in found[2].events] == [
            ("Verdict", "HOLD", None),
            ("Review", "Approve", "sre-1"),
            ("Promoted", None, None),
        ]
        assert [each.end and each.end["kind"] for each in found] == [None, "RolledBack", "Completed"]

    def test_it_reads_as_a_story(self) -> None:
        text = "\n".join(past.render(past.attempts(LEDGER), "checkout in shop"))
        assert f"{CANARY}  attempt 1  shop/checkout:1.8.0, started by dev-1 2030-05-01 12:01:00Z" in text
        assert "step 2   HOLD            BelowThreshold: neither proven nor disproven" in text
        assert f"Approve         by sre-1 until {at(hours=9)}: logs are clean" in text
        assert "completed after 5m" in text
        assert "Abort           by sre-2: wrong branch" in text
        assert "rolled back after 2m" in text
        assert "not over yet" in text

    def test_an_override_is_told_with_who_it_was(self) -> None:
        past_the_gate = [
            entry(1, "Started", canary={"images": ["x"]}),
            entry(2, "Overridden", step="1", actor="sre-1", message="sre-1 un-paused it by kubectl."),
            entry(3, "BreachIgnored", step="bake", message="http-success is in breach."),
        ]
        lines = past.render(past.attempts(past_the_gate), "x")
        assert "step 2   Overridden      by sre-1: sre-1 un-paused it by kubectl." in lines[1]
        assert "bake     BreachIgnored   http-success is in breach." in lines[2]

    def test_who_is_not_proven_is_not_named(self) -> None:
        text = "\n".join(past.render(past.attempts(LEDGER), "x"))
        assert "shop/checkout:1.9.0, started by unproven" in text

    def test_long_words_are_cut_unless_it_is_wide(self) -> None:
        long = [entry(1, "Started", canary={"images": ["i" * 90]}), entry(2, "Held", message="m" * 200)]
        narrow, wide = (past.render(past.attempts(long), "x", wide=wide) for wide in (False, True))
        assert not any("m" * 200 in line or "i" * 90 in line for line in narrow)
        assert any("m" * 200 in line for line in wide)
        assert any("i" * 90 in line for line in wide)

    def test_many_attempts_end_with_how_many_more_there_are(self) -> None:
        many = [entry(n, "Started", attempt=n, canary={}) for n in range(1, 14)]
        lines = past.render(past.attempts(many), "x")
        assert lines[-1] == "3 older attempts: add -o json."

    def test_what_can_t_be_read_breaks_nothing(self) -> None:
        assert (
            past.attempts([{"sequence": 0, "unreadable": "x"}, {"sequence": 1, "key": {"attempt": "1"}}])
            == []
        )
        assert past.render([], "checkout in shop") == ["checkout in shop has no releases in its ledger yet."]


def rights(
    found: dict[str, Any], verb: str = "approve", granted: Any = True, writes: Any = True, me: User = ME
) -> can_i.Right:
    return can_i.right(verb, View(found), me, granted, writes)


class TestCanI:
    @pytest.mark.parametrize(
        ("right", "granted", "now", "why"),
        [
            (rights(held()), True, True, "You may approve what is held."),
            (rights(held(hold=hold(initiator="sre-1"))), True, False, "You started this change; somebody else has to approve it."),
            (rights(held(hold=hold(initiator=""))), True, True, "Who started the change is not proven"),
            (rights(held(hold=hold(initiator="system:serviceaccount:ci:bot"))), True, True, "is not proven"),
            (rights(held(hold=hold(blocking=[]))), True, False, "there is nothing to waive"),
            (rights(rollout(phase="Progressing")), True, False, "Nothing is held now; checkout is Progressing."),
            (rights(held(), granted=False), False, False, "You lack the verb approve on rollouts.gatewright.dev/checkout"),
            (rights(held(), writes=False), False, False, "may not create gatereviews.gatewright.dev here"),
            (rights(held(), granted=None), None, None, "The API server did not say."),
            (rights(held(), "operate"), True, True, "You may order"),
            (rights(held(), "override", writes=False), False, False, "may not create gateorders"),
            (rights(held(), me=User("system:serviceaccount:ci:bot", ())), True, False, "hold.serviceAccounts"),
        ],
    )  # fmt: skip
    def test_a_right_is_granted_and_counts_now_or_it_says_why_not(
        self, right: can_i.Right, granted: bool | None, now: bool | None, why: str
    ) -> None:
        assert (right.granted, right.now) == (granted, now)
        assert why in right.why

    def test_who_has_approved_already_is_told_how_many_are_missing(self) -> None:
        approvals = [{"reviewer": "sre-1", "review": "r-1", "expiresAt": at(hours=1)}]
        mine = rights(held(hold=hold(approvals=approvals, approvalsNeeded=2)))
        assert (mine.now, mine.why) == (False, "You have approved it already: 1 of 2 people have.")
        other = rights(held(hold=hold(approvals=approvals, approvalsNeeded=2)), me=User("sre-2", ()))
        assert "It takes 2 people; 1 have approved." in other.why

    def test_a_service_account_that_the_contract_lists_may(self) -> None:
        bot = "system:serviceaccount:ci:bot"
        assert can_i.right("approve", View(held()), User(bot, ()), True, True, [bot]).now is True

    def test_without_a_verb_all_are_told_and_with_one_the_exit_code_says_it(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster = Cluster(held(), contract(CHECK), granted={"override": False})
        monkeypatch.setattr("gatewright_cli.kube.Kube.of", lambda flags: cluster)
        assert kubectl_gate(["can-i", "checkout"]) == Exit.OK
        told = capsys.readouterr().out
        assert "sre-1 on checkout in shop:" in told
        assert [line.split()[:2] for line in told.splitlines() if line[:3] == "  a" or line[:3] == "  o"] == [
            ["approve", "yes"],
            ["operate", "yes"],
            ["override", "no"],
        ]
        assert kubectl_gate(["can-i", "approve", "checkout"]) == Exit.OK
        assert kubectl_gate(["can-i", "override", "checkout", "-o", "json"]) == Exit.NOT_ALLOWED
        out, err = capsys.readouterr()
        assert json.loads(out[out.index("{") :])["rights"][0]["now"] is False
        assert "error: You lack the verb override" in err
        assert "try:   kubectl gate status checkout -n shop --context=prod" in err

    def test_a_verb_that_is_none_of_ours_is_a_usage_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert kubectl_gate(["can-i", "delete", "checkout"]) == Exit.USAGE
        assert "approve" in capsys.readouterr().err


class TestLint:
    def linted(
        self, capsys: pytest.CaptureFixture[str], *files: Path, form: str = ""
    ) -> tuple[int, str, str]:
        code = kubectl_gate(["lint", *map(str, files), *(["-o", form] if form else [])])
        return code, *capsys.readouterr()

    def test_files_that_are_right_pass(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "gate.yaml"
        file.write_text(f"{CONTRACT}---{ROLLOUT}---{SOURCE}")
        code, out, _ = self.linted(capsys, file)
        assert (code, out.splitlines()[-1]) == (Exit.OK, "3 objects: no errors, no warnings.")

    def test_a_finding_has_its_file_and_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        one, two = tmp_path / "contract.yaml", tmp_path / "rollout.yaml"
        one.write_text(
            CONTRACT.replace("limit: {maxBadRatio: 0.01}", "limit:\n      maxBadRatio: 0.01\n      maxBad: 1")
        )
        two.write_text(ROLLOUT.replace("bake: {duration: 10m}", "bake: {duration: 30s}"))
        code, out, _ = self.linted(capsys, one, two)
        lines = out.splitlines()
        assert code == Exit.ERROR
        assert lines[0].startswith(f"{one}:11: error: Nobody reads the field maxBad;")
        assert lines[1].startswith(f"{two}:10: error: window (30s unless you set it) must be shorter")
        assert "2 objects: 2 errors, no warnings." in out

    def test_json_has_the_same(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        file = tmp_path / "x.json"
        file.write_text(
            json.dumps(
                {"kind": "List", "items": [{"apiVersion": "gatewright.dev/v1alpha1", "kind": "Gate"}]},
                indent=1,
            )
        )
        code, out, _ = self.linted(capsys, file, form="json")
        [finding] = json.loads(out)["findings"]
        assert code == Exit.ERROR
        assert (finding["line"], finding["severity"]) == (6, "error")

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("a: [", ":1: it is neither JSON nor YAML"),
            ("kind: Deployment", "so nothing was checked"),
            ("", "so nothing was checked"),
            ("? [a]\n: b", "neither JSON nor YAML"),
        ],
    )
    def test_a_file_that_says_nothing_to_us_is_an_error(
        self, text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        file = tmp_path / "x.yaml"
        file.write_text(text)
        code, _, err = self.linted(capsys, file)
        assert code == Exit.ERROR
        assert sentence in err

    def test_the_examples_pass(self, capsys: pytest.CaptureFixture[str]) -> None:
        root = Path(__file__).resolve().parents[2]
        files = [root / "examples/checkout/contract.yaml", root / "examples/checkout/rollout.yaml"]
        assert self.linted(capsys, *files)[0] == Exit.OK
