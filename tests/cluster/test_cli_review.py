"""From a HOLD to a decision with the plugin: found, understood and decided by the right person, at a real release.

The second half plays the operator itself, as in `test_cli.py`: for what must happen between a look and a word.
"""

import os
import pty
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import DOUBTFUL, Person, Release
from tests.cluster.shop import Shop, allowed, deployment, rollout
from tests.cluster.support import eventually, kubectl_program
from tests.cluster.test_cli import CANARY, DIGEST, PLUGIN, answer, run_plugin
from tests.cluster.test_cli import Release as Reported

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def held(cluster: Instance, operator: Operator, namespace: str) -> Release:
    shop = Release.create(cluster, namespace)
    with shop.traffic():
        shop.release(**DOUBTFUL)
        shop.phase("Held")
    return shop


def test_the_first_screen_holds_reason_evidence_and_action_and_its_command_decides(
    held: Release, as_user: Person
) -> None:
    reviewer = as_user("reviewer-a", roles=("gatewright-reviewer",))

    found = held.gate("holds", who=reviewer).out
    assert re.search(r"checkout +\d+s +2 of 2 +developer-a +in 23h59m.* 0/1 +yes +BelowThreshold: ", found), (
        found
    )
    [look] = re.findall(r"Look at one: kubectl gate (.*) -n ", found)

    screen = held.gate(*shlex.split(look), who=reviewer)
    lines = screen.out.splitlines()
    assert len(lines) <= 40, screen.out
    assert max(map(len, lines)) <= 100, screen.out
    # The reason, in a sentence, and by whom.
    assert held.status["hold"]["message"].split(";")[0][:60] in " ".join(line.strip() for line in lines[1:3])
    assert "started by  developer-a, proven by the API server" in screen.out
    # The evidence: numbers against their bounds, and what was seen in the newest windows of which counters.
    assert re.search(
        r"! http-success +below_threshold +\d\d\.\d+ % +\d\d\.\d+–\d\d\.\d+ % +95 % +\d+", screen.out
    )
    assert re.search(r"seen +[▁▂▃▄▅▆▇█]+ bad/all, newest last: \d+/\d+ \d+/\d+ ", screen.out), screen.out
    assert re.search(r"needs +a proven share of at least 95 %", screen.out)
    # What it would do, and how.
    assert "On your word the new version goes to all pods." in screen.out
    [approve] = re.findall(
        r"kubectl gate (approve checkout -n \S+ --expires 24h)", screen.out.replace("\\\n    ", "")
    )

    assert "http-success" in held.gate("get", "checkout", who=reviewer).out

    start = shlex.split(approve.partition(" -n ")[0])
    words = (*start, "--expires", "24h", "--reason", "looked at the error log")
    silent = held.gate(*words, who=reviewer)
    assert not silent.ok
    assert "there is no terminal to ask at: add --yes where that is meant." in silent.err
    assert held.all("gatereviews.gatewright.dev") == []

    said = held.gate(*words, "--yes", who=reviewer)
    assert said.ok, said.err
    assert said.out.startswith("Accepted: "), said.out
    assert re.search(r"^Now (Promoting|Progressing|Idle)", said.out, re.MULTILINE), said.out
    held.phase("Idle")
    after = held.gate("holds", who=reviewer)
    assert after.ok
    assert after.out == f"Nothing is held in {held.namespace}.\n"


def test_who_started_it_is_told_so_before_and_refused_when_trying(held: Release) -> None:
    listed = held.gate("holds", who=held.developer)
    assert "no: you started it" in listed.out
    said = held.gate(
        *("approve", "checkout", "--expires", "1h", "--reason", "it is my own change", "--yes"),
        who=held.developer,
    )
    assert not said.ok
    assert "developer-a started this change; somebody else has to approve it." in said.err
    assert "try:   kubectl gate review checkout -n" in said.err


@pytest.fixture
def reported(shop: Shop) -> Reported:
    """A held Rollout whose operator is the test."""
    allowed(shop.run(shop.admin, "create", "-f", "-", manifest=deployment("shop/checkout:v2")))
    allowed(shop.run(shop.admin, "create", "-f", "-", manifest=rollout()))
    release = Reported(shop)
    release.hold()
    return release


class Terminal:
    """What somebody sees and types while the plugin runs."""

    def __init__(self, process: "Popen[str]", master: int) -> None:
        self.process = process
        self._master = master
        self.seen = ""

    def read_until(self, words: str) -> str:
        while words not in self.seen:
            try:
                read = os.read(self._master, 4096)
            except OSError:  # the other end is closed
                read = b""
            assert read, f"{words!r} never came; seen was: {self.seen}"
            self.seen += read.decode(errors="replace")
        return self.seen

    def ended(self) -> None:
        """Fails with what was said, if the plugin has ended."""
        if self.process.poll() is not None:
            self.read_until("a word that never comes")

    def type(self, line: str) -> tuple[int, str, str]:
        """Exit code, standard output, and what was shown after the line."""
        os.write(self._master, f"{line}\n".encode())
        before = len(self.seen)
        out, _ = self.process.communicate(timeout=60)
        try:
            while read := os.read(self._master, 4096):
                self.seen += read.decode(errors="replace")
        except OSError:
            pass
        return self.process.returncode, out, self.seen[before:].replace("\r\n", "\n")


@contextmanager
def at_a_terminal(release: Reported, who: Path, *args: str) -> Iterator[Terminal]:
    master, slave = pty.openpty()
    process = Popen(
        [PLUGIN, *args, "-n", release.shop.namespace],
        env={**os.environ, "KUBECONFIG": str(who), "KUBECTL": str(kubectl_program()), "NO_COLOR": "1"},
        stdin=slave,
        stdout=PIPE,
        stderr=slave,
        text=True,
    )
    os.close(slave)
    with process:
        try:
            yield Terminal(process, master)
        finally:
            process.kill()
            os.close(master)


APPROVE = ("approve", "checkout", "--expires", "1h", "--reason", "looked at the error log")


def test_at_a_terminal_the_evidence_is_shown_and_a_no_writes_nothing(reported: Reported) -> None:
    who = reported.reviewer()
    with at_a_terminal(reported, who, *APPROVE) as terminal:
        shown = terminal.read_until("Approve? [y/N] ")
        for word in (
            "12 of 1038 planned requests.",
            "developer, proven",
            "Approve, as reviewer-a:",
            "waives http-success until",
        ):
            assert word in shown, shown
        code, out, after = terminal.type("n")
    assert (code, out) == (1, "")
    assert "Nothing was done." in after
    assert reported.list("gatereviews.gatewright.dev") == []


def test_a_hold_that_changes_under_the_reviewers_eyes_is_not_decided_on(reported: Reported) -> None:
    who = reported.reviewer()
    with at_a_terminal(reported, who, *APPROVE) as terminal:
        terminal.read_until("Approve? [y/N] ")
        status = reported.get("rollouts.gatewright.dev")["status"]
        status["hold"]["evidenceDigest"] = DIGEST.replace(DIGEST[7:11], "0000")
        reported.report(**status)
        code, out, after = terminal.type("y")
    assert (code, out) == (5, "")
    assert "error: While you looked, the evidence changed: look again. Nothing was written." in after
    assert f"try:   kubectl gate review checkout -n {reported.shop.namespace}" in after
    assert reported.list("gatereviews.gatewright.dev") == []


def test_a_yes_at_the_terminal_writes_what_was_shown_and_the_first_of_two_approvals_is_said(
    reported: Reported,
) -> None:
    who = reported.reviewer()
    reported.hold(approvalsNeeded=2)
    with at_a_terminal(reported, who, *APPROVE) as terminal:
        terminal.read_until("2 more people have to approve")
        terminal.read_until("Approve? [y/N] ")
        os.write(terminal._master, b"y\n")
        eventually(
            lambda: reported.list("gatereviews.gatewright.dev") or terminal.ended(), 60, "it is written"
        )
        spec = answer(reported, "gatereviews.gatewright.dev", "Accepted", "reviewer-a approved step 2.")
        status = reported.get("rollouts.gatewright.dev")["status"]
        status["hold"]["approvals"] = [
            {"reviewer": "reviewer-a", "review": "r-1", "expiresAt": spec["expiresAt"]}
        ]
        reported.report(**status)
        out, _ = terminal.process.communicate(timeout=60)
    assert terminal.process.returncode == 0
    assert out.splitlines()[:2] == [
        "Accepted: reviewer-a approved step 2.",
        "1 of 2 approvals: one more person has to approve before it goes on.",
    ]
    assert (spec["evidenceDigest"], spec["revision"], spec["checks"]) == (DIGEST, CANARY, ["http-success"])
    listed = run_plugin(who, "holds", "-n", reported.shop.namespace).out
    assert re.search(r" 1/2 +no: you have approved ", listed), listed


def test_what_the_right_is_called_is_said_to_who_lacks_it(reported: Reported) -> None:
    create = {
        "apiGroups": ["gatewright.dev"],
        "resources": ["gatereviews", "rollouts"],
        "verbs": ["create", "get"],
    }
    stranger = reported.shop.person("stranger-a", rules=[create])
    said = reported.gate(stranger, *APPROVE, "--yes")
    assert said.code == 4
    assert "the verb approve on rollouts.gatewright.dev is missing" in said.err
    right = f"kubectl auth can-i approve rollouts.gatewright.dev/checkout -n {reported.shop.namespace}"
    assert f"try:   {right}" in said.err


def test_an_escalated_hold_whose_clock_stands_says_so(reported: Reported) -> None:
    status = reported.get("rollouts.gatewright.dev")["status"]
    status["hold"] |= {
        "escalatedAt": status["hold"]["since"],
        "clockStoppedSince": status["hold"]["since"],
        "clockStoppedBy": "MetricSource prometheus is unreachable.",
        "contractWrittenBy": "developer",
    }
    reported.report(**status)
    who = reported.reviewer()
    screen = reported.gate(who, "review", "checkout").out
    assert re.search(
        r"held +\S+ ago; escalated \S+ ago; clock stopped since \S+ \(\S+\) because a source is down", screen
    ), screen
    assert "developer, proven; the same person wrote the contract last" in screen
    assert "clock stopped" in reported.gate(who, "holds").out


def test_watching_prints_a_line_for_each_change(reported: Reported) -> None:
    who = reported.reviewer()
    process = Popen(
        [PLUGIN, "get", "checkout", "--watch", "-n", reported.shop.namespace],
        env={**os.environ, "KUBECONFIG": str(who), "KUBECTL": str(kubectl_program())},
        stdout=PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert f"{reported.shop.namespace}/checkout  Held  50 %  LowTraffic" in first
        status = reported.get("rollouts.gatewright.dev")["status"]
        status |= {"phase": "RollingBack", "message": "All traffic goes back to stable.", "hold": None}
        reported.report(**status)
        seen = ""
        while "RollingBack" not in seen:
            seen = process.stdout.readline()
            assert seen, "the watch ended"
        assert "checkout  RollingBack  50 %  All traffic goes back to stable." in seen
    finally:
        process.kill()
        process.communicate()


def test_names_and_yaml_of_what_is_held(reported: Reported) -> None:
    who = reported.reviewer()
    assert reported.gate(who, "holds", "-o", "name").out == "rollout.gatewright.dev/checkout\n"
    assert reported.gate(who, "get", "-o", "name").out == "rollout.gatewright.dev/checkout\n"
    assert f"evidenceDigest: {DIGEST}" in reported.gate(who, "review", "checkout", "-o", "yaml").out
    reported.report(phase="Idle", hold=None)
    nothing = reported.gate(who, "holds", "-o", "json")
    assert (nothing.code, nothing.json) == (0, [])
    assert nothing.err == f"Nothing is held in {reported.shop.namespace}.\n"
