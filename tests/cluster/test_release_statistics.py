"""What no threshold rule gives: whoever only just meets the limit is not let through, and who is not at fault not sent back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devcluster import Instance
from devcluster.install import Operator
from tests.cluster.releases import Release, check, contract
from tests.cluster.support import eventually, rest

pytestmark = pytest.mark.timeout(300)

LOOKS = {"warmup": "3s", "duration": "6s", "maxDuration": "12s", "window": "2s", "interval": "1s"}


@pytest.fixture
def namespaces(cluster: Instance, namespace: str) -> Iterator[list[str]]:
    """Five of them."""
    names = [namespace, *(f"{namespace[:58]}-{n}" for n in range(4))]
    for name in names[1:]:
        rest(cluster.kubeconfig, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield names
    for name in names[1:]:
        rest(cluster.kubeconfig, "DELETE", f"/api/v1/namespaces/{name}")


def test_five_versions_exactly_at_the_limit_are_looked_at_every_second_and_none_is_promoted(
    cluster: Instance, operator: Operator, namespaces: list[str]
) -> None:
    """Spread evenly, so that it is the limit that is met and not a lucky draw; tests/property has the rate of those."""

    def create(name: str) -> Release:
        return Release.create(cluster, name, steps=[{"setWeight": 50}, {"gate": LOOKS}])

    with ThreadPoolExecutor(5) as pool:
        shops = list(pool.map(create, namespaces))
    with ExitStack() as traffic:
        for shop in shops:
            traffic.enter_context(shop.traffic(rate=60))
            shop.release(VERSION="v2", ERROR_RATE="0.05")
        ends = [shop.phase("Held", "RolledBack", "Promoting") for shop in shops]
    assert [end["phase"] for end in ends] == ["Held"] * 5, [end["message"] for end in ends]
    for shop in shops:
        verdict = shop.entries("Verdict")[-1]["body"]["verdict"]
        judged = verdict["checks"][0]
        assert verdict["decision"] == "HOLD"
        assert judged["statistics"]["look"] == 6, "it was looked at at every window"
        assert judged["statistics"]["lb"] < 0.95
        assert judged["score"] == pytest.approx(0.95, abs=0.02)


def test_errors_that_come_in_bursts_at_low_traffic_send_nobody_back(
    cluster: Instance, operator: Operator, namespace: str
) -> None:
    """4.8 % on the whole, all of them within 0.7 s of a quarter of a minute: a window of its own has 36 %."""
    gate = LOOKS | {"duration": "20s", "maxDuration": "20s"}
    shop = Release.create(
        cluster,
        namespace,
        steps=[{"setWeight": 50}, {"gate": gate}],
        contract_spec=contract([check(versusStable={})]),
        env={"ERROR_PATTERN": "bursts", "ERROR_RATE": "0.01"},
    )
    with shop.traffic(rate=24):
        shop.release(VERSION="v2", ERROR_RATE="0.048")
        status = shop.phase("Held", "RolledBack", "Promoting", timeout=120)
    assert status["phase"] == "Held", status["message"]
    judged = shop.entries("Verdict")[-1]["body"]["verdict"]["checks"][0]
    assert judged["statistics"]["badWindows"] >= 1, "there was a burst"
    assert judged["breach"] is False


def test_an_outage_of_what_both_versions_depend_on_is_nobodys_rollback(
    cluster: Instance, operator: Operator, namespace: str, tmp_path: Path
) -> None:
    down = tmp_path / "down"
    gate = LOOKS | {"duration": "15s", "maxDuration": "16s"}
    shop = Release.create(
        cluster,
        namespace,
        steps=[{"setWeight": 50}, {"gate": gate}],
        contract_spec=contract([check(versusStable={})]),
        env={"OUTAGE_FILE": str(down)},
    )
    with shop.traffic(rate=80) as traffic:
        shop.release(VERSION="v2")
        shop.phase("Progressing", step=1)
        run = eventually(lambda: shop.status.get("run"), 30, "the gate has a run")
        starts = datetime.fromisoformat(shop.get("gaterun", run)["spec"]["clock"]["startsAt"])
        eventually(lambda: datetime.now(UTC) > starts + timedelta(seconds=1), 30, "the gate counts")
        down.touch()
        eventually(
            lambda: (
                traffic.report().versions["v2"].get("500", 0) > 100
                and traffic.report().versions["v1"].get("500", 0) > 100
            ),
            30,
            "both versions fail",
        )
        down.unlink()
        status = shop.phase("Held", "RolledBack", "Promoting", timeout=120)
    assert status["phase"] == "Held", status["message"]
    assert status["hold"]["reason"] in ("SharedOutage", "BelowThreshold"), status["message"]
    assert shop.stable_pods(), "stable serves on"
