"""The command line: kubectl's flags, our own, the objects that decisions become, and what errors say."""

import json
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.review import GateOrder, GateReview
from gatewright_cli import decide, durations, gatereview, output, parser
from gatewright_cli.decide import Word
from gatewright_cli.errors import Exit, GateError, NotAllowed, NotFound, Unreachable, UsageError
from gatewright_cli.flags import OWN_WITH_VALUE, take
from gatewright_cli.kube import User, explain
from gatewright_cli.main import kubectl_gate
from gatewright_cli.view import View
from tests.unit.cli_objects import CANARY, DIGEST, NOW, OTHER, WORLD, canary, held, rollout, stable

ME = User("sre-1", ("sre", "system:authenticated"))


@pytest.mark.parametrize(
    "argv",
    [
        ["-n", "shop", "status", "checkout", "--context", "prod"],
        ["status", "-nshop", "checkout", "--context=prod"],
        ["status", "checkout", "--namespace=shop", "--context", "prod"],
        ["--context=prod", "status", "checkout", "-n=shop"],
        ["status", "--namespace", "shop", "--context", "prod", "checkout"],
    ],
)
def test_flags_of_kubectl_may_stand_anywhere(argv: list[str]) -> None:
    flags, rest = take(argv)
    assert (flags.namespace, flags.argv, rest) == ("shop", ["--context=prod"], ["status", "checkout"])


def test_flags_of_kubectl_are_handed_on_as_they_are() -> None:
    flags, rest = take(
        ["holds", "--as", "sre-1", "--as-group=a", "--as-group", "b", "--insecure-skip-tls-verify", "-v6"]
    )
    assert flags.argv == ["--as=sre-1", "--as-group=a", "--as-group=b", "--insecure-skip-tls-verify", "--v=6"]
    assert rest == ["holds"]


def test_a_reason_that_looks_like_a_flag_is_a_reason() -> None:
    flags, rest = take(["reject", "checkout", "--reason", "-n shop was wrong"])
    assert flags.namespace is None
    assert rest == ["reject", "checkout", "--reason", "-n shop was wrong"]


def test_every_option_of_ours_that_takes_a_value_is_known_to_the_splitter() -> None:
    found: set[str] = set()

    def walk(one: Any) -> None:
        for action in one._actions:
            if hasattr(action, "choices") and isinstance(action.choices, dict):
                for name, each in action.choices.items():
                    # Their lines are never split: they speak to no cluster.
                    if name not in ("backtest", "plan", "server"):
                        walk(each)
            elif action.option_strings and action.nargs is None:
                found.update(action.option_strings)

    walk(parser.gate_parser())
    walk(parser.gatewright_parser())
    assert found == OWN_WITH_VALUE


def test_secrets_are_not_repeated_in_proposed_commands() -> None:
    flags, _ = take(["status", "x", "--token=s3cret", "--context", "my prod", "--as=sre-1"])
    assert flags.repeated == " --context='my prod' --as=sre-1"


def test_a_flag_without_its_value_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--context needs a value"):
        take(["status", "x", "--context"])


@pytest.mark.parametrize(
    ("stderr", "kind", "sentence"),
    [
        (
            'The gatereviews "checkout-4zmmf" is invalid: : ValidatingAdmissionPolicy \'gatewright-review-identity\' with '
            "binding 'gatewright-review-identity' denied request: spec.reviewer is x, but you are sre-1. Nobody signs for "
            "somebody else.",
            NotAllowed,
            "spec.reviewer is x, but you are sre-1. Nobody signs for somebody else.",
        ),
        (
            'Error from server (Forbidden): rollouts.gatewright.dev "x" is forbidden: User "dev-1" cannot get resource',
            NotAllowed,
            'rollouts.gatewright.dev "x" is forbidden: User "dev-1" cannot get resource.',
        ),
        (
            "error: You must be logged in to the server (Unauthorized)",
            NotAllowed,
            "You must be logged in to the server (Unauthorized).",
        ),
        (
            'Error from server (NotFound): rollouts.gatewright.dev "x" not found',
            NotFound,
            'rollouts.gatewright.dev "x" not found.',
        ),
        (
            "Error from server (NotFound): the server could not find the requested resource",
            NotFound,
            "The API server does not know gatewright.dev: Gatewright is not installed in this cluster.",
        ),
        (
            "E1130 12:44:22.1 1 memcache.go:265] noise\nThe connection to the server 127.0.0.1:1 was refused - did you "
            "specify the right host or port?",
            Unreachable,
            "The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?",
        ),
        ('error: context "zz" does not exist', GateError, 'context "zz" does not exist.'),
        ("", GateError, "kubectl failed without a word."),
    ],
)  # fmt: skip
def test_what_kubectl_says_becomes_an_error_that_can_be_acted_on(
    stderr: str, kind: type[GateError], sentence: str
) -> None:
    error = explain(stderr)
    assert type(error) is kind
    assert error.sentence == sentence


@pytest.mark.parametrize(
    ("stderr", "then"),
    [
        ('Error from server (NotFound): rollouts.gatewright.dev "x" not found', "kubectl gate get -A"),
        ("The connection to the server 127.0.0.1:1 was refused", "kubectl cluster-info"),
        ('error: context "zz" does not exist', "kubectl config get-contexts"),
        ("error: You must be logged in to the server (Unauthorized)", "kubectl auth whoami"),
    ],
)
def test_an_error_of_kubectl_s_names_the_next_command(stderr: str, then: str) -> None:
    assert explain(stderr).then == then


def test_an_approval_names_exactly_what_is_held() -> None:
    view = View(held())
    word = Word("approve", "checkout", " logs are clean ", expires="24h")
    manifest = gatereview.review_of(view, ME, word, NOW + timedelta(hours=24), "")
    assert manifest["metadata"] == {"generateName": "checkout-", "namespace": "shop"}
    assert manifest["spec"] == {
        "rollout": "checkout",
        "rolloutUID": "uid-1",
        "run": f"checkout-{CANARY}-1-1",
        "revision": CANARY,
        "step": "1",
        "evidenceDigest": DIGEST,
        "decision": "Approve",
        "reviewer": "sre-1",
        "groups": ["sre", "system:authenticated"],
        "reason": "logs are clean",
        "worldSnapshot": WORLD,
        "checks": ["http-success"],
        "expiresAt": "2030-05-02T12:00:00Z",
    }
    assert GateReview.model_validate(manifest).spec.expires_at == NOW + timedelta(hours=24)


def test_a_rejection_has_no_expiry() -> None:
    spec = gatereview.review_of(View(held()), ME, Word("reject", "checkout", "it is bad"), None, "")["spec"]
    assert (spec["decision"], "expiresAt" in spec) == ("Reject", False)


def test_what_is_not_held_cannot_be_reviewed() -> None:
    view = View(rollout(phase="Progressing"))
    with pytest.raises(NotAllowed, match=r"Rollout checkout is not held now; it is Progressing\.") as refused:
        gatereview.review_of(view, ME, Word("approve", "checkout", "x"), NOW, " --context=prod")
    assert refused.value.then == "kubectl gate status checkout -n shop --context=prod"


REJECTED = {"revision": OTHER, "reason": "BreachAbsolute"}
ORDERS: list[tuple[str, str, dict[str, Any], str]] = [
    ("abort what is on its way", "abort", {"phase": "Progressing", "canary": canary()}, CANARY),
    ("abort a bake", "abort", {"phase": "Baking", "observedRevision": CANARY}, CANARY),
    ("retry what was refused", "retry", {"phase": "RolledBack", "rejected": REJECTED}, OTHER),
    ("retry what is held", "retry", {"phase": "Held", "canary": canary(), "rejected": REJECTED}, CANARY),
    ("escalate what is held", "escalate", {"phase": "Held", "canary": canary()}, CANARY),
]


@pytest.mark.parametrize(("verb", "status", "revision"), [o[1:] for o in ORDERS], ids=[o[0] for o in ORDERS])
def test_an_order_names_the_revision_it_is_about(verb: str, status: dict[str, Any], revision: str) -> None:
    manifest = decide.order_of(View(rollout(**status)), ME, Word(verb, "checkout", "because"), "")
    order = GateOrder.model_validate(manifest)
    assert (order.spec.revision, order.spec.ordered_by, order.spec.order.value) == (
        revision,
        "sre-1",
        verb.capitalize(),
    )


@pytest.mark.parametrize(("verb", "phase"), [("abort", "Idle"), ("retry", "Idle"), ("abort", "RolledBack")])
def test_an_order_about_nothing_is_refused_before_it_is_written(verb: str, phase: str) -> None:
    view = View(rollout(phase=phase, stable=stable(), observedRevision=CANARY))
    with pytest.raises(NotAllowed, match=f"nothing to {verb}; it is {phase}"):
        decide.order_of(view, ME, Word(verb, "checkout", "because"), "")


def test_expiry_is_a_length_from_now_or_a_time_ahead() -> None:
    assert decide.expiry("1h30m", NOW) == NOW + timedelta(hours=1, minutes=30)
    assert decide.expiry("3d", NOW) == NOW + timedelta(days=3)
    assert decide.expiry("2030-05-01T13:00:00+02:00", NOW - timedelta(hours=2)) == NOW - timedelta(hours=1)
    for wrong in ("tomorrow", "", "0s", "-1h", "24", "99999d", "2030-04-30T00:00:00Z", "9" * 400 + "h"):
        with pytest.raises(UsageError):
            decide.expiry(wrong, NOW)


class Answers:
    """Stands for the API server while an answer is waited for."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.now = 0.0

    def get(self, where: str) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self) -> dict[str, Any]:
        return decide.await_answer(
            self, "/x/gatereviews/r-1", {}, timedelta(seconds=3), lambda: self.now, self.sleep
        )  # type: ignore[arg-type] - a fake


def test_the_operator_s_answer_is_waited_for_through_a_gap() -> None:
    answered = {"status": {"outcome": "Accepted"}}
    assert Answers({}, Unreachable("gone"), {"status": {}}, answered).wait() == answered


def test_an_answer_that_does_not_come_leaves_the_object_as_it_is() -> None:
    answers = Answers({"spec": {}})
    assert answers.wait() == {"spec": {}}
    assert answers.now >= 3


def test_a_review_that_is_deleted_meanwhile_is_said() -> None:
    with pytest.raises(GateError, match="r-1 was deleted before the operator answered"):
        Answers(NotFound("no")).wait()


def test_the_effect_of_an_accepted_decision_is_waited_for_and_not_for_long() -> None:
    before = View(held())
    answers = Answers(before.rollout, before.rollout, held(phase="Progressing", hold=None))
    decide.await_effect(answers, before, lambda: answers.now, answers.sleep)  # type: ignore[arg-type] - a fake
    assert len(answers.answers) == 1
    assert answers.now == pytest.approx(2 * decide.ANSWER_POLL_SECONDS)
    nothing = Answers(before.rollout)
    decide.await_effect(nothing, before, lambda: nothing.now, nothing.sleep)  # type: ignore[arg-type] - a fake
    assert nothing.now == pytest.approx(decide.EFFECT_SECONDS, abs=decide.ANSWER_POLL_SECONDS)


def test_lengths_of_time_are_spelt_as_kubernetes_spells_them() -> None:
    assert durations.length_of("1h30m") == timedelta(minutes=90)
    assert durations.length_of("500ms") == timedelta(milliseconds=500)
    for wrong in ("", "1", "h", "1h 30m", "1.5h", "-5m", None, 5):
        assert durations.length_of(wrong) is None


@pytest.mark.parametrize(
    ("ratio", "other", "text"),
    [
        (0.99712, None, "99.71 %"),
        (0.99, None, "99 %"),
        (0.98999, 0.99, "98.999 %"),
        (0.5, 0.5, "50 %"),
        (0.0, None, "0 %"),
        (None, None, "–"),
        (float("nan"), None, "–"),
    ],
)
def test_a_share_has_the_digits_that_tell_it_from_its_threshold(
    ratio: float | None, other: float | None, text: str
) -> None:
    assert output.share(ratio, other) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-5, "0s"), (59, "59s"), (90, "1m30s"), (3600, "1h"), (93600, "1d2h"), (86401, "1d")],
)
def test_ages_have_the_two_largest_units(seconds: int, text: str) -> None:
    assert output.span(timedelta(seconds=seconds)) == text


def complain(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = kubectl_gate(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("argv", "sentence", "then"),
    [
        (["status"], "The following arguments are required: ROLLOUT.", "kubectl gate status --help"),
        (["approve", "checkout", "--reason", "x"], "required: --expires", "kubectl gate approve --help"),
        (["reject", "checkout"], "required: --reason", "kubectl gate reject --help"),
        (
            ["reject", "checkout", "--reason", " "],
            "--reason needs 10 to 1024 characters",
            "kubectl gate reject --help",
        ),
        (
            ["approve", "x", "--expires", "1h", "--reason", "looks ok "],
            "--reason needs 10 to 1024",
            "kubectl gate approve --help",
        ),
        (
            ["request-changes", "checkout", "--reason", "look at the log"],
            "there is no terminal to ask at: add --yes where that is meant.",
            "kubectl gate review checkout",
        ),
        (["get", "x", "-A"], "A name is a name in one namespace", "kubectl gate get --help"),
        (["reject", "checkout", "--reason", "x", "--expires", "1h"], "Unrecognized", "kubectl gate --help"),
        (
            ["status", "pod/checkout"],
            "'pod/checkout' is not a Rollout.",
            "kubectl get rollouts.gatewright.dev",
        ),
        (["status", "../../x"], "'../../x' is not a Rollout.", "kubectl get rollouts.gatewright.dev"),
        (["status", "x y"], "'x y' is no name of a Rollout.", "kubectl get rollouts.gatewright.dev"),
        (["status", "x", "-n", "a/b"], "'a/b' is no name of a namespace.", "kubectl get namespaces"),
        (["status", "x", "--timeout", "5m"], "belong to --wait", "kubectl gate status --help"),
        (
            ["status", "x", "--wait", "--timeout", "5"],
            "'5' is not a length of time",
            "kubectl gate status --help",
        ),
        (["frobnicate"], "invalid choice", "kubectl gate --help"),
        (["ledger", "verify"], "Name the Rollout", "kubectl gate ledger --help"),
    ],
)
def test_a_line_that_makes_no_sense_is_exit_code_2_and_says_what_to_type(
    argv: list[str], sentence: str, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = complain(capsys, *argv)
    assert code == Exit.USAGE
    assert out == ""
    assert sentence in err
    assert f"try:   {then}" in err if then else "try:" not in err


def test_errors_are_json_too_when_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = complain(capsys, "status", "-o", "json", "pod/x")
    assert json.loads(out)["error"] == {
        "code": code,
        "name": "usage",
        "sentence": "'pod/x' is not a Rollout.",
        "then": "kubectl get rollouts.gatewright.dev",
    }
    assert "'pod/x' is not a Rollout." in err


def test_kubectl_that_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL", "/nowhere/kubectl")
    code, _, err = complain(capsys, "status", "checkout")
    assert code == Exit.ERROR
    assert "/nowhere/kubectl does not run" in err
    assert "export KUBECTL=" in err


COMMANDS = [
    "explain",
    "history",
    "can-i",
    "lint",
    "more-samples",
    "get",
    "status",
    "holds",
    "review",
    "approve",
    "reject",
    "request-changes",
    "abort",
    "retry",
    "ledger",
]


@pytest.mark.parametrize(
    "command", [*COMMANDS, "ledger show", "ledger verify", "ledger export", "ledger replay"]
)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        kubectl_gate([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert end.value.code == 0
    assert f"kubectl gate {command}" in text
    if command != "ledger":
        assert "--output" in text
        assert "exit codes:" in text


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = complain(capsys)
    assert code == Exit.USAGE
    assert all(f"    {command}" in out for command in COMMANDS)


def test_the_plugin_starts_without_the_heavy_libraries() -> None:
    modules = ("status", "holds", "review", "get", "decide", "gatereview", "main")
    code = (
        f"import sys\nfor name in {modules}: __import__('gatewright_cli.' + name)\n"
        "print([m for m in ('pydantic', 'kubernetes', 'kopf', 'scipy', 'pandas', 'httpx', 'rich', 'yaml', 'click', "
        "'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "[]\n"


def test_the_operator_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr("os.execv", lambda _, argv: called.append(argv))
    with pytest.raises(
        UsageError
    ):  # execv does not come back in life; here it does, and `--port` is the operator's
        gatewright_raw(["operator", "--port", "1"])
    assert called == [[sys.executable, "-m", "gatewright_operator", "--port", "1"]]


def gatewright_raw(argv: list[str]) -> int:
    from gatewright_cli.main import _gatewright

    return _gatewright(argv)


def test_more_samples_are_for_the_revision_that_is_held() -> None:
    assert decide.order_revision(View(held()), "more-samples", "") == CANARY
    moving = held()
    moving["status"] = moving["status"] | {"phase": "Progressing"}
    with pytest.raises(NotAllowed, match="is not held, so there is no gate to which samples could be added"):
        decide.order_revision(View(moving), "more-samples", "")
