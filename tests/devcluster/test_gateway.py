"""The gateway: real requests follow the routes, none is lost to a change, and the counters tell what happened."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from devcluster.kubeapi import Json
from devcluster.load import LoadGenerator, LoadReport
from devcluster.node.environment import REPOSITORY
from devcluster.resources import DEPLOYMENTS, GATEWAY_CLASSES, GATEWAYS, HTTP_ROUTES, PODS, SERVICES
from tests.devcluster.support import (
    Cluster,
    alive,
    backends,
    condition,
    eventually,
    free_port,
    sample_container,
)


async def ask(cluster: Cluster, host: str, path: str = "/", **headers: str) -> tuple[int, str]:
    """One request through the gateway: its status, and the version that answered (empty when no service did)."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(cluster.machine.gateway_url + path, headers={"Host": host, **headers}) as response,
    ):
        await response.read()
        return response.status, response.headers.get("x-version", "")


async def answers(
    cluster: Cluster, host: str, expected: tuple[int, str], path: str = "/", **headers: str
) -> None:
    """Wait until a request is answered like this."""

    async def look() -> bool:
        return await ask(cluster, host, path, **headers) == expected

    await eventually(f"{host}{path} is answered {expected}", look)


async def counters(cluster: Cluster, service: str) -> dict[str, float]:
    """Envoy's counters of a Service's cluster, by name and further labels."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(cluster.machine.gateway_admin_url + "/stats/prometheus") as response,
    ):
        text = await response.text()
    found = {}
    label = f'envoy_cluster_name="{cluster.namespace}/{service}"'
    for name, labels, value in re.findall(r"^(\w+)\{([^}]*)\} (\S+)$", text, re.MULTILINE):
        if label in labels:
            rest = [part for part in labels.split(",") if part and part != label]
            found[" ".join([name, *rest])] = float(value)
    return found


async def send(cluster: Cluster, name: str, requests: int) -> LoadReport:
    """Send this many requests to a route at 400 a second."""
    load = LoadGenerator(cluster.machine.gateway_url, rate_per_second=400, host=cluster.host(name))
    return await load.run(requests / 400)


def load(cluster: Cluster, name: str, rate: float = 100) -> LoadGenerator:
    """Load on a route; use it as ``async with``."""
    return LoadGenerator(cluster.machine.gateway_url, rate_per_second=rate, host=cluster.host(name))


async def route_status(cluster: Cluster, name: str) -> Json:
    """The one entry of a route's status.parents, empty while there is none."""
    route = await cluster.api.get(HTTP_ROUTES, name, cluster.namespace)
    parents: list[Json] = (route.get("status") or {}).get("parents") or [{}]
    assert len(parents) == 1
    return parents[0]


async def two_versions(cluster: Cluster, **weights: int) -> None:
    """Services ``stable`` and ``canary`` with one pod each, and a route ``shop`` that splits between them."""
    await cluster.deployment("stable", 1, VERSION="stable")
    await cluster.deployment("canary", 1, VERSION="canary")
    await cluster.wait_endpoints("stable", 1)
    await cluster.wait_endpoints("canary", 1)
    await cluster.route("shop", **weights)
    await answers(cluster, cluster.host("shop"), (200, "stable"))


async def test_the_gateway_announces_itself_as_an_implementation_does(cluster: Cluster) -> None:
    async def accepted() -> bool:
        gateway_class = await cluster.api.get(GATEWAY_CLASSES, "devcluster")
        gateway = await cluster.api.get(GATEWAYS, "gateway", "devcluster-gateway")
        return (
            condition(gateway_class.get("status") or {}, "Accepted") == "True"
            and condition(gateway.get("status") or {}, "Programmed") == "True"
        )

    await eventually("class and Gateway are accepted", accepted)


async def test_weights_move_real_requests_and_the_counters_live_on(cluster: Cluster) -> None:
    await two_versions(cluster, stable=95, canary=5)
    first = await send(cluster, "shop", 1000)
    share = sum(first.versions["canary"].values()) / first.answered
    # Four standard deviations of a binomial share around what the weights say.
    assert abs(share - 0.05) < 4 * (0.05 * 0.95 / first.answered) ** 0.5, first.versions
    assert first.failed == 0
    before = await counters(cluster, "canary")
    assert before["envoy_cluster_upstream_rq_total"] == first.versions["canary"]["200"]
    await cluster.set_weights("shop", stable=50, canary=50)

    async def in_force() -> bool:
        report = await send(cluster, "shop", 40)
        return sum(report.versions.get("canary", {}).values()) >= 10

    await eventually("the new weights are in force", in_force)
    between = await counters(cluster, "canary")
    second = await send(cluster, "shop", 1000)
    share = sum(second.versions["canary"].values()) / second.answered
    assert abs(share - 0.5) < 4 * (0.25 / second.answered) ** 0.5, second.versions
    after = await counters(cluster, "canary")
    grown = after["envoy_cluster_upstream_rq_total"] - between["envoy_cluster_upstream_rq_total"]
    assert grown == second.versions["canary"]["200"], "counted on, not from zero"
    assert between["envoy_cluster_upstream_rq_total"] > before["envoy_cluster_upstream_rq_total"]
    two_hundreds = 'envoy_cluster_upstream_rq_xx envoy_response_code_class="2"'
    assert after[two_hundreds] == after["envoy_cluster_upstream_rq_total"]


async def test_new_weights_are_in_force_within_half_a_second(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    loop = asyncio.get_running_loop()
    took = []
    for weights in ({"stable": 0, "canary": 1}, {"stable": 1, "canary": 0}) * 3:
        wanted = max(weights, key=lambda name: weights[name])
        began = loop.time()
        await cluster.set_weights("shop", **weights)
        while (await ask(cluster, cluster.host("shop")))[1] != wanted:
            assert loop.time() - began < 5, f"{weights} never came into force"
        took.append(loop.time() - began)
    # The best of six: whatever else this machine does only adds to it.
    assert min(took) <= 0.5, f"seconds from the write to the first request: {took}"


async def test_a_backend_of_weight_zero_gets_nothing_yet_is_counted_from_the_start(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    report = await send(cluster, "shop", 200)
    assert report.versions.keys() == {"stable"}
    assert (await counters(cluster, "canary"))["envoy_cluster_upstream_rq_total"] == 0


async def test_a_route_without_any_weight_answers_500(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    await cluster.set_weights("shop", stable=0, canary=0)
    await answers(cluster, cluster.host("shop"), (500, ""))


async def test_requests_without_a_healthy_pod_are_counted_as_5xx_of_that_service(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    await cluster.api.patch(DEPLOYMENTS, "canary", {"spec": {"replicas": 0}}, cluster.namespace)
    await cluster.wait_endpoints("canary", 0)
    await cluster.set_weights("shop", stable=0, canary=1)
    await answers(cluster, cluster.host("shop"), (503, ""))
    five_hundreds = 'envoy_cluster_upstream_rq_xx envoy_response_code_class="5"'
    before = await counters(cluster, "canary")
    report = await send(cluster, "shop", 100)
    assert report.statuses == {"503": 100}
    after = await counters(cluster, "canary")
    assert after[five_hundreds] - before[five_hundreds] == 100
    completed = "envoy_cluster_upstream_rq_completed"
    assert after[completed] - before[completed] == 100, "the total that also has those that reached no pod"
    assert after["envoy_cluster_upstream_rq_total"] == before["envoy_cluster_upstream_rq_total"]


async def test_an_error_of_the_service_reaches_the_user_and_is_counted_once(cluster: Cluster) -> None:
    await cluster.deployment("broken", 1, ERROR_RATE="0.1", ERROR_PATTERN="even")
    await cluster.wait_endpoints("broken", 1)
    await cluster.route("shop", broken=1)
    await answers(cluster, cluster.host("shop"), (200, "v1"))
    before = await counters(cluster, "broken")
    report = await send(cluster, "shop", 300)
    assert report.statuses == {"200": 270, "500": 30}
    five_hundreds = 'envoy_cluster_upstream_rq_xx envoy_response_code_class="5"'
    after = await counters(cluster, "broken")
    assert after[five_hundreds] - before.get(five_hundreds, 0) == report.statuses["500"], "nothing is retried"


async def test_no_request_fails_during_a_rolling_update_and_its_counters_live_on(cluster: Cluster) -> None:
    await cluster.deployment("shop", 3, VERSION="v1")
    await cluster.wait_endpoints("shop", 3)
    await cluster.route("shop", shop=1)
    await answers(cluster, cluster.host("shop"), (200, "v1"))
    before = (await counters(cluster, "shop"))["envoy_cluster_upstream_rq_total"]
    async with load(cluster, "shop") as running:
        env = [{"name": "VERSION", "value": "v2"}]
        template = {"spec": {"containers": [{"name": "app", "env": env}]}}
        await cluster.api.patch(
            DEPLOYMENTS, "shop", {"spec": {"template": template}}, cluster.namespace, kind="strategic"
        )

        async def only_new_pods() -> bool:
            pods = (await cluster.api.list(PODS, cluster.namespace))["items"]
            values = [pod["spec"]["containers"][0]["env"][0]["value"] for pod in pods]
            return values == ["v2"] * 3

        await eventually("only pods of the new version are left", only_new_pods, seconds=60)
    report = running.report()
    assert report.failed == 0, report
    assert report.versions.keys() == {"v1", "v2"}
    after = (await counters(cluster, "shop"))["envoy_cluster_upstream_rq_total"]
    assert after - before == report.answered


async def test_no_request_fails_while_scaling_down_and_up(cluster: Cluster) -> None:
    await cluster.deployment("shop", 4, LATENCY_MS="20")
    await cluster.wait_endpoints("shop", 4)
    await cluster.route("shop", shop=1)
    await answers(cluster, cluster.host("shop"), (200, "v1"))
    async with load(cluster, "shop") as running:
        for replicas in (1, 4, 1):
            await cluster.api.patch(DEPLOYMENTS, "shop", {"spec": {"replicas": replicas}}, cluster.namespace)

            async def settled(replicas: int = replicas) -> bool:
                pods = (await cluster.api.list(PODS, cluster.namespace))["items"]
                return len(pods) == replicas and len(await cluster.ready_endpoints("shop")) == replicas

            await eventually(f"{replicas} pods", settled, seconds=30)
    assert running.report().failed == 0, running.report()


async def test_another_selector_of_the_service_keeps_its_counters(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    await send(cluster, "shop", 100)
    before = await counters(cluster, "stable")
    async with load(cluster, "shop") as running:
        await cluster.api.patch(
            SERVICES, "stable", {"spec": {"selector": {"app": "canary"}}}, cluster.namespace
        )
        await answers(cluster, cluster.host("shop"), (200, "canary"))
    assert running.report().failed == 0, running.report()
    after = await counters(cluster, "stable")
    assert (
        after["envoy_cluster_upstream_rq_total"]
        >= before["envoy_cluster_upstream_rq_total"] + running.report().sent
    )


async def test_an_unready_pod_gets_no_more_requests(cluster: Cluster) -> None:
    await cluster.service("pair", app="pair")
    for name in ("one", "two"):
        await cluster.pod(name, sample_container(VERSION=name), labels={"app": "pair"})
    await cluster.wait_endpoints("pair", 2)
    await cluster.route("shop", pair=1)

    async def both() -> bool:
        return (await send(cluster, "shop", 20)).versions.keys() == {"one", "two"}

    await eventually("both pods get requests", both)
    await cluster.api.patch(PODS, "two", {"metadata": {"labels": {"app": "elsewhere"}}}, cluster.namespace)
    await answers(cluster, cluster.host("shop"), (200, "one"))

    async def only_one() -> bool:
        return (await send(cluster, "shop", 20)).versions.keys() == {"one"}

    await eventually("only the pod that is left gets requests", only_one)


async def test_paths_headers_and_methods_choose_the_rule(cluster: Cluster) -> None:
    for name in ("main", "api", "beta", "exact"):
        await cluster.deployment(name, 1, VERSION=name)
        await cluster.wait_endpoints(name, 1)
    prefix = {"path": {"type": "PathPrefix", "value": "/api"}}
    header = {"headers": [{"name": "x-user", "value": "beta"}]}
    exact = {"path": {"type": "Exact", "value": "/api/exact"}}
    spec = {
        "parentRefs": [{"name": "gateway", "namespace": "devcluster-gateway"}],
        "hostnames": [cluster.host("shop")],
        "rules": [
            {"backendRefs": backends(main=1)},
            {"matches": [prefix], "backendRefs": backends(api=1)},
            {"matches": [header], "backendRefs": backends(beta=1)},
            {"matches": [exact], "backendRefs": backends(exact=1)},
        ],
    }
    await cluster.route_of("shop", spec)
    host = cluster.host("shop")
    await answers(cluster, host, (200, "main"))
    assert await ask(cluster, host, "/api/orders") == (200, "api")
    assert await ask(cluster, host, "/apiary") == (200, "main"), "a prefix ends at a slash"
    assert await ask(cluster, host, "/api/exact") == (200, "exact")
    assert await ask(cluster, host, "/", **{"x-user": "beta"}) == (200, "beta")
    assert await ask(cluster, "unknown.example") == (404, "")


async def test_the_route_status_follows_its_generation_and_its_backends(cluster: Cluster) -> None:
    await cluster.route("shop", nowhere=1)

    async def unresolved() -> Json | None:
        entry = await route_status(cluster, "shop")
        return entry if condition(entry, "ResolvedRefs") == "False" else None

    entry = await eventually("ResolvedRefs is False", unresolved)
    assert condition(entry, "Accepted") == "True"
    reason = next(each for each in entry["conditions"] if each["type"] == "ResolvedRefs")
    assert reason["reason"] == "BackendNotFound"
    assert f"{cluster.namespace}/nowhere" in reason["message"]
    assert await ask(cluster, cluster.host("shop")) == (500, ""), "an unusable backend's share gets 500"
    await cluster.service("nowhere")

    async def resolved() -> bool:
        return condition(await route_status(cluster, "shop"), "ResolvedRefs") == "True"

    await eventually("ResolvedRefs is True once the Service is there", resolved)
    await cluster.set_weights("shop", nowhere=7)

    async def observed() -> bool:
        route = await cluster.api.get(HTTP_ROUTES, "shop", cluster.namespace)
        generations = {
            each["observedGeneration"] for each in (await route_status(cluster, "shop"))["conditions"]
        }
        return generations == {route["metadata"]["generation"]} and route["metadata"]["generation"] == 2

    await eventually("both conditions speak of the second generation", observed)


async def test_a_status_that_says_it_already_is_not_written_again(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)

    async def resolved() -> bool:
        return condition(await route_status(cluster, "shop"), "ResolvedRefs") == "True"

    await eventually("the status is written", resolved)
    before = await cluster.api.get(HTTP_ROUTES, "shop", cluster.namespace)
    await cluster.api.patch(DEPLOYMENTS, "stable", {"spec": {"replicas": 2}}, cluster.namespace)
    await cluster.wait_endpoints("stable", 2)
    await send(cluster, "shop", 100)
    after = await cluster.api.get(HTTP_ROUTES, "shop", cluster.namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_route_for_another_gateway_is_left_alone(cluster: Cluster) -> None:
    await two_versions(cluster, stable=1, canary=0)
    spec = {
        "parentRefs": [{"name": "somebody-elses"}],
        "hostnames": ["elsewhere.example"],
        "rules": [{"backendRefs": backends(stable=1)}],
    }
    await cluster.route_of("other", spec)
    await cluster.set_weights("shop", stable=0, canary=1)
    await answers(cluster, cluster.host("shop"), (200, "canary"))  # by now the other route was seen as well
    assert await ask(cluster, "elsewhere.example") == (404, "")
    assert await route_status(cluster, "other") == {}


@pytest.mark.parametrize("field", ["filters", "regex"])
async def test_a_route_that_cannot_be_served_is_refused_and_harms_no_other(
    cluster: Cluster, field: str
) -> None:
    await two_versions(cluster, stable=1, canary=0)
    rule: Json = {"backendRefs": backends(stable=1)}
    if field == "filters":
        rule["filters"] = [
            {
                "type": "RequestHeaderModifier",
                "requestHeaderModifier": {"add": [{"name": "x-added", "value": "1"}]},
            }
        ]
    else:
        rule["matches"] = [{"path": {"type": "RegularExpression", "value": "/(broken"}}]
    spec = {
        "parentRefs": [{"name": "gateway", "namespace": "devcluster-gateway"}],
        "hostnames": ["refused.example"],
        "rules": [rule],
    }
    await cluster.route_of("refused", spec)

    async def refused() -> bool:
        return condition(await route_status(cluster, "refused"), "Accepted") == "False"

    await eventually("the route is refused", refused)
    await cluster.set_weights("shop", stable=0, canary=1)
    await answers(cluster, cluster.host("shop"), (200, "canary"))


async def test_envoy_ends_with_its_gateway_and_the_gateway_with_its_envoy(
    cluster: Cluster, tmp_path: Path
) -> None:
    async def start(name: str) -> tuple[asyncio.subprocess.Process, int]:
        directory = tmp_path / name
        ports = [str(free_port()), str(free_port())]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "devcluster.gateway", "--kubeconfig", str(cluster.machine.kubeconfig)),
            *("--dir", str(directory), "--port", ports[0], "--admin-port", ports[1]),
            cwd=REPOSITORY,
            stderr=asyncio.subprocess.PIPE,
        )

        async def ready() -> list[int]:
            return alive(str(directory / "bootstrap.json")) if (directory / "ready").exists() else []

        return process, (await eventually("the gateway is ready", ready))[0]

    first, envoy = await start("first")
    first.kill()
    await first.communicate()

    async def envoy_ended() -> bool:
        return envoy not in alive("bootstrap.json")

    await eventually("Envoy has ended with its gateway", envoy_ended, seconds=5)
    second, envoy = await start("second")
    os.kill(envoy, signal.SIGKILL)
    _, complaint = await asyncio.wait_for(second.communicate(), 10)
    assert second.returncode == 1
    assert "Envoy ended with code 137" in complaint.decode()
    assert not (tmp_path / "second" / "ready").exists()
