"""A backtest reads a real Prometheus as an operator would have: what the pods counted, window by window. Takes about 15 s,
because windows of real scrapes do."""

import json
import time
from pathlib import Path

import pytest

from gatewright_cli.errors import Exit
from gatewright_cli.main import gatewright
from tests.fault.test_real_prometheus import scraped, wait_for
from tests.judging import check
from tests.unit.evidence_world import CANARY, NAMESPACE, STABLE

pytestmark = pytest.mark.cluster

WINDOW = 3.0


def test_the_windows_of_a_real_prometheus_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = check(limit={"maxBadRatio": 0.05})
    one["evidence"][0]["counts"] = {
        "source": "prometheus", "bad": ['http_requests_total{code=~"5.."}'], "total": ["http_requests_total"]
    }  # fmt: skip
    contract = {"apiVersion": "gatewright.dev/v1alpha1", "kind": "GateContract", "metadata": {"name": "checkout"},
                "spec": {"checks": [one]}}  # fmt: skip
    (tmp_path / "contract.json").write_text(json.dumps(contract))
    with scraped(tmp_path) as (prometheus, canary, stable):
        wait_for("first scrapes of both pods", lambda: prometheus.newest("http_requests_total") is not None)
        wait_for("two scrapes of each pod", lambda: min(canary.scrapes, stable.scrapes) >= 2)
        start = time.time() + 0.3
        for number, failed in enumerate((0, 60, 50)):
            middle = start + (number + 0.4) * WINDOW
            wait_for("the middle of a window", lambda middle=middle: time.time() >= middle)
            canary.serve(ok=40, failed=failed)
            stable.serve(ok=100)
        end = start + 3 * WINDOW
        wait_for("scrapes after the end", lambda: (prometheus.newest("http_requests_total") or 0) > end + 1.1)
        words = [
            "--prometheus", prometheus.reader._address, "--from", f"{start:.3f}", "--to", f"{end:.3f}", "--step", "3s",
            "--namespace", NAMESPACE, "--canary", CANARY.pod_prefix, "--stable", STABLE.pod_prefix, "--scrape-interval", "1s",
        ]  # fmt: skip
        code = gatewright(["backtest", str(tmp_path / "contract.json"), *words, "-o", "json"])
        found = json.loads(capsys.readouterr().out)
        assert code == Exit.ROLLED_BACK, found
        assert [(look["t"], look["n"]) for look in found["looks"]] == [(3.0, 40), (6.0, 140), (9.0, 230)]
        assert (found["reason"], found["decidedAtSeconds"]) == ("TotalFailure", 9.0)
        [judged] = found["checks"]
        assert judged["statistics"]["f"] == 110 and judged["statistics"]["stableS"] == 300

        nobody = [word if word != CANARY.pod_prefix else "nobody-" for word in words]
        assert gatewright(["backtest", str(tmp_path / "contract.json"), *nobody]) == Exit.HELD
        assert capsys.readouterr().out.startswith("HOLD  ")
