"""kopf, as far as it is used: log-in, discovery and watches. Its handlers put what they see into `Intake`,
and do no more.

No timers, daemons, change handlers, indices, peering or webhooks, and nothing here sets a patch or returns a
value: each of them loses work in some case that a gate cannot afford.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import kopf

from gatewright_analysis.names import GROUP
from gatewright_operator.resources import Resource
from gatewright_operator.throttle import Endless
from gatewright_operator.transport import Transport
from gatewright_operator.watched import WATCHED

Saw = Callable[[Resource, str | None, dict[str, Any]], None]
"""Called for each event: its kind, its type (None: listed at the start of a watch), the object."""

Listed = Callable[[str], None]
"""Called with the path of each listing that a watch starts with."""

RELOGIN_SECONDS = 5.0
"""kopf logs in again at once after each 401; this holds it up."""


def registry(api: Transport, saw: Saw, listed: Listed) -> kopf.OperatorRegistry:
    """One log-in, and one event handler per watched kind."""
    result = kopf.OperatorRegistry()
    logged_in_at = float("-inf")

    @kopf.on.login(registry=result, id="login", errors=kopf.ErrorsMode.TEMPORARY, backoff=5)
    async def login(**_: Any) -> kopf.AiohttpSession:
        # A session of ours, and no credentials with an expiry: at each renewal of those kopf ends all
        # watches, and some stay deaf until they count as silent, 70 s later (measured).
        nonlocal logged_in_at
        now = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, logged_in_at + RELOGIN_SECONDS - now()))
        logged_in_at = now()
        return kopf.AiohttpSession(
            server=api.configuration.host, aiohttp_session=api.new_session(listed=listed)
        )

    async def seen(*, event: Any, param: Any = None, **_: Any) -> None:
        saw(param, event["type"], event["object"])

    for kind in (watched.resource for watched in WATCHED):
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


def settings(identity: str) -> kopf.OperatorSettings:
    """kopf's settings, each for a measured reason (docs/explanation/kopf.md)."""
    result = kopf.OperatorSettings()
    result.peering.standalone = True
    result.networking.request_timeout, result.networking.connect_timeout = 30, 5
    result.networking.error_backoffs = Endless()
    result.networking.enforce_retry_after = True
    result.watching.connect_timeout, result.watching.server_timeout = 10, 290
    result.watching.reconnect_backoff = 1.0
    result.watching.chunk_size = 500
    for watched in WATCHED:
        if watched.labels:
            result.watching.label_selectors[_is(watched.resource)] = watched.labels
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
    api: Transport,
    saw: Saw,
    listed: Listed,
    *,
    namespaces: Sequence[str],
    identity: str,
    stop: asyncio.Event,
) -> None:
    """Watch until `stop`; ends early, or raises, when kopf gives up (its caller starts it anew)."""
    await kopf.operator(
        registry=registry(api, saw, listed),
        settings=settings(identity),
        stop_flag=stop,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
    )


def _is(resource: Resource) -> Callable[[Any], bool]:
    # kopf's shortcut for a selector has no word for the core group, whose name is empty.
    return lambda served: (served.group, served.plural) == (resource.group, resource.plural)
