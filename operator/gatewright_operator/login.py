"""How the operator logs in to the API server: a kubeconfig, or the service account of its pod."""

from pathlib import Path

import yaml
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import Configuration

_MALFORMED = (ValueError, TypeError, KeyError, AttributeError)
"""What the client raises for a kubeconfig of the wrong shape: it takes the shape for granted."""


class LoginError(Exception):
    """The kubeconfig or the service account cannot be used; the message says why."""


async def login(configuration: Configuration, kubeconfig: Path | None) -> None:
    """Fill in the address and the credentials, or renew them. Raises LoginError.

    A service account's token is read anew every minute by the client itself.
    """
    if kubeconfig is not None:
        _demand_file(kubeconfig)
    try:
        if kubeconfig is None:
            kube_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
            return
        await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(kubeconfig), client_configuration=configuration, persist_config=False
        )
    except (kube_config.ConfigException, yaml.YAMLError, OSError, *_MALFORMED) as error:
        source = f"the kubeconfig {kubeconfig}" if kubeconfig else "the service account of this pod"
        raise LoginError(f"cannot log in with {source}: {error}") from error
    if configuration.tls_server_name:
        raise LoginError(f"{kubeconfig} asks for a tls-server-name, which the operator's watches can't give")
    # A login command that fails is only logged by the client, which then goes on as an unknown user.
    if not configuration.api_key and not configuration.cert_file:
        raise LoginError(
            f"{kubeconfig} gives neither a token nor a client certificate, or its login command failed"
        )


def _demand_file(kubeconfig: Path) -> None:
    # The client only logs a missing file, and then misses a key in it.
    if not kubeconfig.is_file():
        raise LoginError(f"there is no kubeconfig {kubeconfig}")
