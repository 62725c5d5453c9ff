"""How each part of the control plane is started: its command line, and how it is to be stopped."""

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from devcluster.errors import DevclusterError
from devcluster.layout import Layout, Ports

ETCD = "etcd"
API_SERVER = "apiserver"
CONTROLLER_MANAGER = "controller-manager"
PROMETHEUS = "prometheus"
NODE = "node"
GATEWAY = "gateway"
ALL_PARTS = frozenset({ETCD, API_SERVER, CONTROLLER_MANAGER, PROMETHEUS, NODE, GATEWAY})

PROGRAM_OF = {
    ETCD: "etcd",
    API_SERVER: "kube-apiserver",
    CONTROLLER_MANAGER: "kube-controller-manager",
    PROMETHEUS: "prometheus",
}

SERVICE_NETWORK = "10.96.0.0/16"
SERVICE_ACCOUNT_ISSUER = "https://kubernetes.default.svc"

# What Deployments, Services, Jobs, autoscaling, disruption budgets, quotas and namespaces need. Not the
# lifecycle of nodes (the one node is a process of ours), volumes, certificates, or the cloud.
CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
)


def with_what_they_need(parts: Iterable[str]) -> frozenset[str]:
    """``parts`` and the parts that they cannot run without.

    Raises:
        DevclusterError: there is no such part.
    """
    asked = frozenset(parts)
    if unknown := asked - ALL_PARTS:
        raise DevclusterError(
            f"There is no part {', '.join(sorted(unknown))}; the parts are {', '.join(sorted(ALL_PARTS))}."
        )
    # Everything but the store speaks to the API server, and that one to the store.
    return asked | {ETCD} | ({API_SERVER} if asked - {ETCD} else frozenset())


def audit_policy() -> str:
    """Who did what to which object, for all users; the stage at which a request arrives is left out."""
    return json.dumps(
        {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
    )


def etcd_arguments(layout: Layout, ports: Ports) -> list[str]:
    """etcd without fsync: the data is thrown away with the cluster, and a test must not wait for a disk."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        "--name=devcluster",
        f"--data-dir={layout.data / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=devcluster={peer}",
        "--unsafe-no-fsync",
        "--snapshot-count=1000000",
        "--heartbeat-interval=20",  # alone in its cluster, it waits for no other member before it leads
        "--election-timeout=200",
        "--log-level=warn",
    ]


def api_server_arguments(layout: Layout, ports: Ports) -> list[str]:
    """The API server with RBAC and an audit log, on a loopback port."""
    pki = layout.pki
    return [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        f"--secure-port={ports.api_server}",
        "--bind-address=127.0.0.1",
        # Without it the server looks for a default route, and refuses to start in a closed container.
        "--advertise-address=127.0.0.1",
        # It would publish the address above, which the server itself refuses in an endpoint.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--service-account-issuer={SERVICE_ACCOUNT_ISSUER}",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        "--service-account-extend-token-expiration=false",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--authorization-mode=RBAC",
        "--anonymous-auth=false",
        "--allow-privileged=true",
        "--profiling=false",
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-mode=blocking",  # nothing is lost or late: tests count what is in it
        "--audit-log-maxsize=100000",
    ]


def controller_manager_arguments(layout: Layout) -> list[str]:
    """Kubernetes' own controllers, each under its own service account, quick to react."""
    kubeconfig = layout.kubeconfig_of(CONTROLLER_MANAGER)
    return [
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki / 'service-account.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--concurrent-deployment-syncs=10",
        "--concurrent-replicaset-syncs=10",
        "--concurrent-service-endpoint-syncs=10",
        "--endpointslice-updates-batch-period=0s",
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--resource-quota-sync-period=10s",
        "--terminated-pod-gc-threshold=200",
    ]


def prometheus_arguments(layout: Layout, ports: Ports) -> list[str]:
    """Prometheus that finds new pods within a second or two."""
    return [
        f"--config.file={layout.prometheus_config}",
        f"--storage.tsdb.path={layout.data / 'prometheus'}",
        "--storage.tsdb.retention.time=7d",
        f"--web.listen-address=127.0.0.1:{ports.prometheus}",
        # By default new targets are taken over every five seconds, which is a whole gate in a short test.
        "--scrape.discovery-reload-interval=200ms",
        "--log.level=warn",
    ]


def node_command(layout: Layout) -> list[str | Path]:
    """The node made of processes."""
    kubeconfig = layout.kubeconfig_of(NODE)
    return [
        sys.executable,
        "-m",
        "devcluster.node",
        "--kubeconfig",
        kubeconfig,
        "--dir",
        layout.folder / NODE,
    ]


def gateway_command(layout: Layout, ports: Ports) -> list[str | Path]:
    """The gateway: Envoy and the translator that configures it."""
    return [
        *(sys.executable, "-m", "devcluster.gateway"),
        *("--kubeconfig", layout.kubeconfig_of(GATEWAY), "--dir", layout.folder / GATEWAY),
        *("--port", str(ports.gateway), "--admin-port", str(ports.gateway_admin)),
    ]


def stop_signal_of(part: str) -> signal.Signals:
    """How a part is stopped: those with processes or connections in order, those with data at once."""
    return signal.SIGKILL if part in (ETCD, API_SERVER, CONTROLLER_MANAGER, PROMETHEUS) else signal.SIGTERM
