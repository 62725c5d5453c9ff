"""kopf, as far as it is used: log-in, discovery and watches. Its handlers put what they see into `Intake`,
and do no more.

No timers, daemons, change handlers, indices, peering or webhooks, and nothing here sets a patch or returns a
value: each of them loses work in some case that a gate cannot afford.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from gatewright_analysis.names import GROUP
from gatewright_operator.resources import Resource
from gatewright_operator.transport import on_loopback
from gatewright_operator.watched import WATCHED, Watched

Object = dict[str, Any]
Saw = Callable[[Resource, str | None, Object], None]
"""Called for each event with its kind, its type (None: the listing at the start of a watch) and the
object."""

CREDENTIAL_SECONDS = 300.0
"""kopf asks anew for credentials this often: a service account's token is replaced on disk before it ends."""


class Endless:
    """Waits between repeats of a failed call, without end: the process outlives any outage. Probes tell of
    it."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1.0, 2.0, 4.0)
        while True:
            yield 5.0


def registry(
    configuration: Configuration, saw: Saw, watched: Sequence[Watched] = WATCHED
) -> kopf.OperatorRegistry:
    """One log-in, and one event handler per watched kind."""
    result = kopf.OperatorRegistry()

    @kopf.on.login(registry=result, id="login", errors=kopf.ErrorsMode.TEMPORARY, backoff=5)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        header = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        return kopf.ConnectionInfo(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
            token=header.split(" ")[-1].strip() if header else None,
            proxy_url=configuration.proxy,
            trust_env=not on_loopback(configuration.host),
            expiration=datetime.now(UTC) + timedelta(seconds=CREDENTIAL_SECONDS),
        )

    async def seen(*, event: Any, param: Any = None, **_: Any) -> None:
        saw(param, event["type"], event["object"])

    for kind in (watched_kind.resource for watched_kind in watched):
        on = kopf.on.event(
            group=kind.group,
            version=kind.version,
            plural=kind.plural,
            id=str(kind),
            param=kind,
            registry=result,
        )
        on(seen)
    return result


def settings(identity: str, watched: Sequence[Watched] = WATCHED) -> kopf.OperatorSettings:
    """kopf's settings, each for a measured reason (docs/explanation/kopf.md)."""
    result = kopf.OperatorSettings()
    result.peering.standalone = True
    result.networking.request_timeout, result.networking.connect_timeout = 30, 5
    result.networking.error_backoffs = Endless()
    result.networking.enforce_retry_after = True
    result.watching.connect_timeout, result.watching.server_timeout = 10, 290
    result.watching.reconnect_backoff = 1.0
    result.watching.chunk_size = 500
    for kind in watched:
        if kind.labels:
            result.watching.label_selectors[_is(kind.resource)] = kind.labels
    # The handlers have nothing to finish, and the Lease waits for nobody.
    result.queueing.exit_timeout = 0.1
    result.execution.default_backoff = 5
    result.persistence.finalizer = f"{GROUP}/unused"
    result.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    result.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    result.posting.enabled, result.posting.loggers = False, False
    result.posting.reporting_component, result.posting.reporting_instance = f"{GROUP}/operator", identity
    # Ending the process is for `main` to decide.
    result.process.ultimate_exiting_timeout = None
    return result


async def watch(
    configuration: Configuration, saw: Saw, *, namespaces: Sequence[str], identity: str, stop: asyncio.Event
) -> None:
    """Watch until `stop`; ends early, or raises, when kopf gives up (its caller starts it anew)."""
    await kopf.operator(
        registry=registry(configuration, saw),
        settings=settings(identity),
        stop_flag=stop,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
    )


def _is(resource: Resource) -> Callable[[Any], bool]:
    # kopf's shortcut for a selector has no word for the core group, whose name is empty.
    return lambda served: (served.group, served.plural) == (resource.group, resource.plural)
