"""The stage: a cluster with Gatewright in it, the service `checkout` under its gate, and traffic."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from devcluster.client import ApiRefused, Client
from devcluster.demo.numbers import AuditLog
from devcluster.demo.people import NAMESPACE, People
from devcluster.demo.traffic import Traffic
from devcluster.errors import DevclusterError
from devcluster.install import Operator, install, start_operator, wait_until_ready
from devcluster.instance import Instance
from devcluster.supervision import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "checkout"
HOST = "checkout.shop"
_ROLLOUT = f"/apis/gatewright.dev/v1alpha1/namespaces/{NAMESPACE}/rollouts/checkout"
_DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/checkout"
_READY_SECONDS = 90.0
_LOOK_SECONDS = 0.25

Json = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """Everything that a release of the demo needs."""

    cluster: Instance
    operator: Operator
    people: People
    traffic: Traffic
    api: Client

    @classmethod
    @contextmanager
    def set(
        cls, cluster: Instance, *, rate_per_second: float, say: Callable[[str], None]
    ) -> Iterator["Stage"]:
        """Installs everything into a running cluster, and sends traffic until the block ends."""
        install(cluster, operator=False, report=say)
        say("Starting the operator.")
        operator = start_operator(cluster)
        people = People.of(cluster)
        say(f"Applying {EXAMPLES.relative_to(REPOSITORY)}/: service, contract, rollout, and who may do what.")
        people.admin.kubectl("create", "namespace", NAMESPACE)
        _apply(people, "people.yaml", "service.yaml")
        wait_until_ready(cluster, operator)
        _apply(people, "contract.yaml", "rollout.yaml")
        with Client(cluster.kubeconfig) as api:
            _wait_until_gated(api)
            say(f"{rate_per_second:g} requests a second go through Envoy to {HOST}.")
            with Traffic(cluster.gateway_url, host=HOST, rate_per_second=rate_per_second) as traffic:
                yield cls(cluster, operator, people, traffic, api)

    def rollout(self) -> Json:
        """The Rollout as it stands."""
        return self._read(_ROLLOUT)

    def run(self, name: str) -> Json:
        """A GateRun; empty when there is none of that name."""
        try:
            return self._read(f"{_ROLLOUT.rpartition('/rollouts/')[0]}/gateruns/{name}")
        except ApiRefused as error:
            if error.status == 404:
                return {}
            raise

    def audit(self) -> AuditLog:
        """The operator's writes from now on."""
        return AuditLog(self.cluster.audit_log)

    def _read(self, path: str) -> Json:
        try:
            return self.api.request("GET", path)
        except ConnectionError:
            # The server may have closed a connection that was idle for a while; the next request opens another.
            return self.api.request("GET", path)


def _apply(people: People, *names: str) -> None:
    for name in names:
        people.admin.kubectl("apply", "--server-side", "-f", str(EXAMPLES / name))


def _wait_until_gated(api: Client) -> None:
    """Until the pods serve and the Rollout is at rest, with the Deployment under its guard."""
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        deployment, rollout = api.request("GET", _DEPLOYMENT), api.request("GET", _ROLLOUT)
        status = rollout.get("status") or {}
        wanted = deployment["spec"]["replicas"]
        if (
            status.get("phase") == "Idle"
            and status.get("guard")
            and (deployment.get("status") or {}).get("availableReplicas") == wanted
        ):
            return
        if time.monotonic() > deadline:
            raise DevclusterError(
                f"The service is not under its gate after {_READY_SECONDS:.0f} s: "
                f"{status.get('phase', 'no phase')}, {status.get('message', 'no message')}"
            )
        time.sleep(_LOOK_SECONDS)
