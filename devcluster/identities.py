"""The keys, certificates and kubeconfigs that a cluster itself needs, written anew each time it starts."""

from devcluster import kubeconfig as kubeconfigs
from devcluster.bootstrap import user_of
from devcluster.certs import Authority, new_signing_key, write_private
from devcluster.layout import Layout, Ports
from devcluster.parts import CONTROLLER_MANAGER, GATEWAY, NODE, PROMETHEUS, audit_policy

SERVER_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
SERVER_ADDRESSES = ("127.0.0.1", "10.96.0.1")

# The names under which the API server grants rights of its own accord.
ADMINISTRATORS = "system:masters"
CONTROLLER_MANAGER_USER = "system:kube-controller-manager"


def server_url(ports: Ports) -> str:
    """The API server's address."""
    return f"https://127.0.0.1:{ports.api_server}"


def write_identities(layout: Layout, server: str) -> None:
    """Writes everything that must exist before the API server starts."""
    for folder in (layout.pki, layout.data, layout.users, layout.folder / "parts"):
        folder.mkdir(mode=0o700)
    layout.audit_policy.write_text(audit_policy())
    authority = Authority.create(layout.pki)
    pair = authority.issue_server(SERVER_NAMES, SERVER_ADDRESSES)
    (layout.pki / "apiserver.crt").write_bytes(pair.certificate)
    write_private(layout.pki / "apiserver.key", pair.key)
    signing = new_signing_key()
    (layout.pki / "service-account.pub").write_bytes(signing.certificate)
    write_private(layout.pki / "service-account.key", signing.key)
    users = {
        layout.admin_kubeconfig: ("admin", (ADMINISTRATORS,)),
        layout.kubeconfig_of(CONTROLLER_MANAGER): (CONTROLLER_MANAGER_USER, ()),
        **{layout.kubeconfig_of(part): (user_of(part), ()) for part in (NODE, GATEWAY, PROMETHEUS)},
    }
    for path, (name, groups) in users.items():
        pair = authority.issue_client(name, groups)
        kubeconfigs.write_for_certificate(path, server, authority.certificate_pem, name, pair)
