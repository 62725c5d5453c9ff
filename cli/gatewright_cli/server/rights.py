"""Who a viewer is and what they may read: the API server's word, kept for a few seconds and no longer."""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Generic, TypeVar

from gatewright_analysis.names import VERB_APPROVE
from gatewright_cli.server.cluster import Cluster, Right, Viewer

KEPT_SECONDS: Final = 5.0
_MOST: Final = 4096
_AT_ONCE: Final = 8

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Answers by question, each for a few seconds; bounded. Two that ask the same at once ask twice: no harm."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, seconds: float = KEPT_SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._answers: dict[K, tuple[float, V]] = {}

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        now = self._clock()
        found = self._answers.get(key)
        if found is not None and now - found[0] < self._seconds:
            return found[1]
        answer = await ask()
        if len(self._answers) >= _MOST:
            self._answers = {k: v for k, v in self._answers.items() if now - v[0] < self._seconds}
        if len(self._answers) < _MOST:
            # `now` is from before the question: an answer is never older than it is thought to be.
            self._answers[key] = (now, answer)
        return answer


class Rights:
    """All methods raise Trouble when the API server does not answer: then nothing is shown."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._viewers: Kept[str, Viewer | None] = Kept(clock)
        self._answers: Kept[tuple[Viewer, Right], bool] = Kept(clock)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def who(self, token: str) -> Viewer | None:
        """The owner of a token, None when it is not accepted."""
        key = hashlib.sha256(token.encode()).hexdigest()
        return await self._viewers.get(key, lambda: self._cluster.who(token))

    async def may(self, viewer: Viewer, right: Right) -> bool:
        async def ask() -> bool:
            async with self._slots:
                return await self._cluster.may(viewer, right)

        return await self._answers.get((viewer, right), ask)

    async def all(self, viewer: Viewer, rights: Iterable[Right]) -> bool:
        return all(await asyncio.gather(*(self.may(viewer, right) for right in rights)))

    async def may_read(self, viewer: Viewer, namespace: str) -> bool:
        """Whether the holds of a namespace may be shown: get and list of its Rollouts and GateRuns."""
        return await self.all(viewer, reading(namespace))

    async def readable(self, viewer: Viewer, namespaces: Iterable[str]) -> set[str]:
        """Those whose holds may be shown."""
        names = sorted(set(namespaces))
        if not names or await self.may_read(viewer, ""):
            return set(names)
        answers = await asyncio.gather(*(self.may_read(viewer, name) for name in names))
        return {name for name, yes in zip(names, answers, strict=True) if yes}

    async def may_approve(self, viewer: Viewer, namespace: str, rollout: str) -> bool:
        return await self.may(viewer, Right(VERB_APPROVE, "rollouts", namespace, rollout))


def reading(namespace: str) -> tuple[Right, ...]:
    """What a viewer needs to see the holds of a namespace; of all namespaces with an empty name."""
    return tuple(
        Right(verb, resource, namespace) for resource in ("rollouts", "gateruns") for verb in ("get", "list")
    )
