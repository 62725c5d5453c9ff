"""The stage of the review page's tests: held releases, viewers with tokens, and the page as a process of its own."""

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import yaml

from devcluster import Client, Instance
from devcluster.bootstrap import request_token
from devcluster.certs import Authority, write_private
from tests.cluster.support import OPERATOR_NAMESPACE, kubectl
from tests.held_release import HeldRelease, held_release

CHART = Path(__file__).resolve().parents[2] / "charts" / "gatewright"
ACCOUNT = f"system:serviceaccount:{OPERATOR_NAMESPACE}:gatewright-server"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OURS = "/apis/gatewright.dev/v1alpha1"

Object = dict[str, Any]


def rendered(cluster: Instance, template: str, *options: str) -> list[Object]:
    """The objects of one template of the chart, with the page switched on."""
    command: list[str | Path] = [
        *(cluster.program("helm"), "template", "gatewright", CHART, "-n", OPERATOR_NAMESPACE),
        *("--kube-version", "1.36.3", "--set", "server.enabled=true", *options),
        *("--show-only", f"templates/{template}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


@dataclass(frozen=True)
class Page:
    """A running page."""

    base: str
    authority: Path

    def get(self, path: str, token: str | None = None, method: str = "GET", **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        trusted = ssl.create_default_context(cafile=str(self.authority))
        with httpx.Client(verify=trusted, trust_env=False, timeout=30) as client:
            return client.request(method, self.base + path, headers=headers, **options)


@dataclass(frozen=True)
class Stage:
    """An API server with the kinds, and with the rights that the chart gives to the page and to people."""

    cluster: Instance

    def prepare(self) -> None:
        objects = [
            each
            for template in ("server.yaml", "rbac-people.yaml")
            for each in rendered(self.cluster, template)
            if each["kind"] not in ("Deployment", "Service")
        ]
        self.namespace(OPERATOR_NAMESPACE)
        kubectl(["apply", "-f", "-"], self.cluster.kubeconfig, manifest=objects, check=True)

    def namespace(self, name: str) -> str:
        with Client(self.cluster.kubeconfig) as admin:
            admin.create("/api/v1/namespaces", {"metadata": {"name": name}}, exists_ok=True)
        return name

    def held(self, namespace: str, name: str = "checkout", **hold: Any) -> HeldRelease:
        """A held release with its contract, run and evidence, in a namespace that is made for it."""
        self.namespace(namespace)
        made = held_release(namespace, name, **hold)
        with Client(self.cluster.kubeconfig) as admin:
            admin.create(f"/api/v1/namespaces/{namespace}/configmaps", made.evidence)
            for plural, body in (
                ("gatecontracts", made.contract),
                ("gateruns", made.run),
                ("rollouts", made.rollout),
            ):
                admin.create(f"{OURS}/namespaces/{namespace}/{plural}", body)
        for plural, body in (("gateruns", made.run), ("rollouts", made.rollout)):
            self.status(namespace, plural, body["metadata"]["name"], body["status"])
        return made

    def status(self, namespace: str, plural: str, name: str, status: Object) -> None:
        path = f"{OURS}/namespaces/{namespace}/{plural}/{name}/status"
        with Client(self.cluster.kubeconfig) as admin:
            admin.request("PATCH", path, {"status": status}, content_type="application/merge-patch+json")

    def viewer(self, namespace: str, name: str, *roles: str, where: tuple[str, ...] = ()) -> str:
        """A token of a service account of `namespace` with these ClusterRoles there, and in `where`."""
        self.namespace(namespace)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        with Client(self.cluster.kubeconfig) as admin:
            admin.create(
                f"/api/v1/namespaces/{namespace}/serviceaccounts",
                {"metadata": {"name": name}},
                exists_ok=True,
            )
            for place in (namespace, *where):
                for role in roles:
                    binding = {
                        "metadata": {"name": f"{namespace}-{name}-{role}"},
                        "roleRef": {
                            "apiGroup": "rbac.authorization.k8s.io",
                            "kind": "ClusterRole",
                            "name": role,
                        },
                        "subjects": [subject],
                    }
                    admin.create(f"{RBAC}/namespaces/{place}/rolebindings", binding, exists_ok=True)
            return request_token(admin, namespace, name, 3600)

    @contextmanager
    def page(self, folder: Path, *options: str) -> Iterator[Page]:
        """`gatewright server` with the service account that the chart gives it, over TLS on a free port."""
        authority = Authority.create(folder)
        pair = authority.issue_server(("localhost",), ("127.0.0.1",))
        (folder / "page.crt").write_bytes(pair.certificate)
        write_private(folder / "page.key", pair.key)
        kubeconfig = self.cluster.service_account_kubeconfig(OPERATOR_NAMESPACE, "gatewright-server")
        command: list[str | Path] = [
            *(Path(sys.executable).with_name("gatewright"), "server", "--kubeconfig", kubeconfig),
            *("--listen", "127.0.0.1:0", "--tls-cert", folder / "page.crt", "--tls-key", folder / "page.key"),
            *options,
        ]
        log = folder / "page.log"
        with (
            log.open("w") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
        ):
            try:
                assert process.stdout is not None
                # A page that hangs before its first line would hang the test: then the pipe is closed under it.
                late = threading.Timer(60, process.kill)
                late.start()
                said = process.stdout.readline()
                late.cancel()
                assert " listens at https://" in said, f"the page did not start: {said}{log.read_text()}"
                yield Page(f"https://127.0.0.1:{urlsplit(said.split()[-1]).port}", folder / "ca.crt")
            finally:
                process.terminate()
                process.wait(timeout=20)
