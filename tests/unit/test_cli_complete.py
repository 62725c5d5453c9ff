"""Completion: what could stand for the last word of a line, and what the shell is told to do with it."""

from typing import Any

import pytest

from gatewright_cli import complete
from gatewright_cli.complete import Then
from gatewright_cli.errors import Unreachable
from gatewright_cli.flags import KubeFlags
from tests.unit.cli_objects import at, held, hold, rollout


class Cluster:
    """Stands for the API server: three Rollouts, two of them held; records the flags that it was asked with."""

    def __init__(self) -> None:
        self.asked: list[KubeFlags] = []
        self.down = False

    def of(self, flags: KubeFlags) -> "Cluster":
        self.asked.append(flags)
        if self.down:
            raise Unreachable("gone")
        return self

    def rollouts_here(self) -> list[dict[str, Any]]:
        late = held(hold=hold(since=at(minutes=-2)))
        late["metadata"]["name"] = "cart"
        return [rollout("basket", phase="Idle"), late, held()]

    def rollout(self, name: str) -> dict[str, Any]:
        return rollout(name)

    def get(self, path: str) -> dict[str, Any]:
        assert path.endswith("/namespaces/shop/gatecontracts/checkout")
        return {"spec": {"checks": [{"id": "http-success", "title": "No 5xx"}, {"id": "p99"}]}}

    def names(self, argv: list[str]) -> list[str]:
        return {"get": ["shop", "shipping"], "config": ["prod", "staging"]}[argv[0]]


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    stands = Cluster()
    monkeypatch.setattr("gatewright_cli.complete.Kube", stands)
    return stands


def words(*argv: str) -> list[str]:
    return [word for word, _ in complete.complete(argv).words]


def test_the_first_word_is_a_verb_and_each_says_what_it_is_for() -> None:
    found = dict(complete.complete([""]).words)
    assert {"status", "holds", "approve", "explain", "history", "can-i", "lint", "ledger"} <= set(found)
    assert all(found.values())
    assert words("re") == ["review", "reject", "request-changes", "retry", "resume"]
    assert words("ledger", "") == ["show", "verify", "export", "replay"]


def test_what_is_held_comes_first_and_the_longest_before_all() -> None:
    answer = complete.complete(["approve", ""])
    assert [word for word, _ in answer.words] == ["checkout", "cart", "basket"]
    assert answer.then == Then.NO_FILES | Then.KEEP_ORDER
    assert answer.words[0][1].endswith("ago: BelowThreshold")
    assert answer.words[2][1] == "Idle"
    assert words("status", "c") == ["checkout", "cart"]


def test_flags_of_kubectl_that_stand_on_the_line_are_obeyed(cluster: Cluster) -> None:
    assert words("--context=prod", "status", "-n", "shop", "c") == ["checkout", "cart"]
    [flags] = cluster.asked
    assert (flags.namespace, flags.argv) == ("shop", ["--context=prod", "--request-timeout=3s"])


def test_a_check_is_completed_after_its_rollout() -> None:
    answer = complete.complete(["explain", "ch"])
    assert [word for word, _ in answer.words] == ["checkout/"]
    assert Then.NO_SPACE in answer.then
    assert complete.complete(["explain", "checkout/"]).words == (
        ("checkout/http-success", "No 5xx"),
        ("checkout/p99", ""),
    )
    assert words("explain", "checkout/p") == ["checkout/p99"]


def test_can_i_takes_a_verb_or_a_rollout_and_then_a_rollout() -> None:
    assert words("can-i", "") == ["approve", "operate", "override", "checkout", "cart", "basket"]
    assert words("can-i", "approve", "") == ["checkout", "cart", "basket"]
    assert words("can-i", "checkout", "") == []


def test_what_is_complete_has_no_more_words() -> None:
    assert words("status", "checkout", "") == []
    assert words("holds", "") == []
    assert words("frobnicate", "") == []


def test_options_are_the_command_s_own_and_kubectl_s() -> None:
    found = words("approve", "checkout", "--")
    assert {"--reason", "--expires", "--yes", "--namespace", "--context"} <= set(found)
    assert "--wait" not in found
    assert words("status", "--wa") == ["--watch", "--wait"]


@pytest.mark.parametrize(
    ("line", "found", "then"),
    [
        (("status", "-o", ""), ["json", "yaml", "wide", "name"], Then.NO_FILES),
        (("status", "checkout", "--output", "w"), ["wide"], Then.NO_FILES),
        (("approve", "x", "--expires", ""), ["1h", "4h", "24h", "72h"], Then.NO_FILES | Then.KEEP_ORDER),
        (("approve", "x", "--reason", ""), [], Then.NO_FILES | Then.KEEP_ORDER),
        (("status", "-n", "sh"), ["shop", "shipping"], Then.NO_FILES),
        (("--context", "p"), ["prod"], Then.NO_FILES),
        (("--kubeconfig", ""), [], Then.FILES),
        (("--as", ""), [], Then.NO_FILES),
        (("ledger", "verify", "-f", ""), [], Then.FILES),
        (("lint", ""), ["yaml", "yml", "json"], Then.ONLY_THESE_FILES),
        (("lint", "a.yaml", ""), ["yaml", "yml", "json"], Then.ONLY_THESE_FILES),
    ],
)
def test_values_are_completed_where_they_are_known(
    line: tuple[str, ...], found: list[str], then: Then
) -> None:
    answer = complete.complete(line)
    assert [word for word, _ in answer.words] == found
    assert answer.then == then


def test_a_shell_is_never_told_of_errors(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.down = True
    monkeypatch.setattr("sys.argv", ["kubectl_complete-gate", "status", ""])
    assert complete.main() == 0
    assert capsys.readouterr() == (":4\n", "")


def test_descriptions_have_no_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = held(hold=hold(reason="x"))
    evil["status"]["hold"]["reason"] = "a\tb\x1b[2J\nc"
    monkeypatch.setattr(Cluster, "rollouts_here", lambda self: [evil])
    monkeypatch.setattr("sys.argv", ["kubectl_complete-gate", "status", ""])
    complete.main()
    first, last = capsys.readouterr().out.splitlines()
    assert first.count("\t") == 1
    assert "\x1b" not in first
    assert last == ":36"
