"""The operator's command line, and what of kopf is switched on and off."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright_operator.handlers import settings
from gatewright_operator.lease import LeaseTimes
from gatewright_operator.main import main, parse
from gatewright_operator.throttle import Endless


def test_without_options_it_runs_as_the_pod_that_the_chart_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "gatewright-0")
    monkeypatch.setenv("POD_NAMESPACE", "release-tools")
    options = parse([])
    assert (options.kubeconfig, options.namespaces) == (None, ())
    assert (options.host, options.port) == (None, 8080), (
        "the chart's probes ask port 8080 of the pod's address"
    )
    assert (options.identity, options.own_namespace) == ("gatewright-0", "release-tools")
    assert options.lease == LeaseTimes(15, 10, 2)


def test_every_option_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_NAMESPACE", raising=False)
    options = parse(
        [
            "--kubeconfig",
            "k",
            "-n",
            "shop",
            "--namespace",
            "billing",
            "--listen",
            "127.0.0.1:0",
            "--identity",
            "a",
            "--lease-seconds",
            "30",
            "--resync-seconds",
            "60",
            "--workers",
            "4",
            "--log-format",
            "json",
            "--log-level",
            "DEBUG",
        ]
    )
    assert options.kubeconfig == Path("k")
    assert options.namespaces == ("shop", "billing")
    assert (options.host, options.port) == ("127.0.0.1", 0)
    assert (options.identity, options.own_namespace) == ("a", "gatewright-system")
    assert options.lease.duration_seconds == 30
    assert (options.resync_seconds, options.workers) == (60, 4)
    assert (options.log_format, options.log_level) == ("json", "DEBUG")


def test_an_ipv6_address_is_understood() -> None:
    options = parse(["--listen", "[::1]:8080"])
    assert (options.host, options.port) == ("::1", 8080)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--listen", "8080"],
        ["--listen", "host:port"],
        ["--listen", ":99999"],
        ["--workers", "0"],
        ["--lease-seconds", "-1"],
        ["--resync-seconds", "0"],
        ["--no-such-option"],
    ],
)
def test_what_cannot_be_understood_is_refused_with_a_sentence(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(wrong)
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_a_kubeconfig_that_is_not_there_ends_it_with_one_line(tmp_path: Path) -> None:
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "gatewright_operator",
            "--kubeconfig",
            str(tmp_path / "none"),
            "--log-format",
            "json",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1
    (line,) = ran.stderr.splitlines()
    assert "there is no kubeconfig" in json.loads(line)["error"]


def test_help_is_given_without_the_planner_being_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "--kubeconfig" in capsys.readouterr().out


def test_kopf_writes_nothing_pauses_for_nobody_and_filters_on_the_server() -> None:
    kopf = settings("pod-1_x")
    assert kopf.peering.standalone
    assert not kopf.posting.enabled
    assert kopf.admission.managed is None
    assert kopf.process.ultimate_exiting_timeout is None, "kopf would end the process with SIGKILL"
    assert set(kopf.watching.label_selectors.values()) == {
        "gatewright.dev/gated in (true,canary)",
        "gatewright.dev/rollout",
        "app.kubernetes.io/name=gatewright",
    }


def test_the_watches_never_run_out_of_patience_and_can_start_counting_anew() -> None:
    waits = Endless()
    assert list(itertools.islice(waits, 6)) == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert next(iter(waits)) == 0.5
