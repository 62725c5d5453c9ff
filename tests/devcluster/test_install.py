"""`install`: chart, metric sources and the operator, in a cluster of its own, as often as one likes."""

import json
import signal
from collections.abc import Iterator

import pytest

from devcluster import Client, DevclusterError, Instance
from devcluster.install import (
    NAMESPACE,
    OPERATOR,
    SERVICE_ACCOUNT,
    metric_sources,
    start_operator,
    wait_until_ready,
)

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(
        tmp_path_factory.mktemp("install"), parts={"controller-manager", "prometheus"}, gateway_api=True
    ) as instance:
        yield instance


def test_install_brings_kinds_policies_sources_and_a_running_operator_and_may_be_repeated(
    cluster: Instance,
) -> None:
    said: list[str] = []
    cluster.report = said.append
    cluster.install()
    first = cluster.status()[OPERATOR]
    cluster.install()
    second = cluster.status()[OPERATOR]
    assert first.pid != second.pid, "a repeated install takes over changed code: it starts the operator anew"
    assert second.running
    assert said.count("Starting the operator.") == 2, said
    with Client(cluster.kubeconfig) as admin:
        kinds = admin.request("GET", "/apis/gatewright.dev/v1alpha1")["resources"]
        assert {"rollouts", "gatecontracts", "gateruns", "gatereviews", "gateorders", "metricsources"} <= {
            kind["name"] for kind in kinds
        }
        policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        assert any(
            item["metadata"]["name"].startswith("gatewright-")
            for item in admin.request("GET", policies)["items"]
        )
        source = admin.request("GET", "/apis/gatewright.dev/v1alpha1/metricsources/prometheus")["spec"]
    assert source["address"] == cluster.prometheus_url
    assert source["arms"] == {"by": "PodName", "label": "pod", "namespaceLabel": "namespace"}


def test_the_operator_acts_under_the_charts_service_account_and_no_other_name(cluster: Instance) -> None:
    cluster.install()
    agents = {
        entry["user"]["username"]
        for entry in map(json.loads, cluster.audit_log.read_text().splitlines())
        if entry.get("objectRef", {}).get("resource") == "leases"
        and entry["objectRef"].get("namespace") == NAMESPACE
        and entry["verb"] in ("create", "update")
    }
    assert agents == {f"system:serviceaccount:{NAMESPACE}:{SERVICE_ACCOUNT}"}


def test_an_operator_that_was_killed_is_started_again_and_takes_its_lease_back(cluster: Instance) -> None:
    operator = start_operator(cluster, args=["--lease-seconds", "3"])
    wait_until_ready(cluster, operator)
    cluster.kill_part(OPERATOR, signal.SIGKILL)
    again = start_operator(cluster, args=["--lease-seconds", "3"])
    wait_until_ready(cluster, again)
    assert again.identity != operator.identity


def test_an_operator_that_cannot_start_is_told_with_its_own_last_words(cluster: Instance) -> None:
    operator = start_operator(cluster, name="misled", args=["--no-such-option"])
    with pytest.raises(DevclusterError, match=r"The operator stopped \(exit code 2\)(.|\n)*--no-such-option"):
        wait_until_ready(cluster, operator)


def test_a_source_is_left_out_where_the_cluster_does_not_run_what_it_asks(cluster: Instance) -> None:
    assert [source["metadata"]["name"] for source in metric_sources(cluster)] == ["prometheus"]
