"""A full re-list of everything watched, every few minutes: repairs missed events and drops what is gone.

A watch that starts, or starts anew after a disconnect, never tells of objects that were deleted before; nothing
but a younger listing finds them, so one follows each such start. The first one fills the cache before any
decision is made.
"""

import asyncio
import logging
from collections.abc import Sequence

from gatewright_operator.api import Api, Listing
from gatewright_operator.errors import ApiError, NotFound
from gatewright_operator.intake import Intake
from gatewright_operator.watched import WATCHED, Watched

log = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
RETRY_CAP_SECONDS = 30.0
SETTLE_SECONDS = 0.5
"""Watches begin together; what they begin with is listed together."""


class Resync:
    """Lists every watched kind, in the given namespaces (none: in all)."""

    def __init__(
        self,
        api: Api,
        intake: Intake,
        *,
        namespaces: Sequence[str] = (),
        interval_seconds: float = 300.0,
        watched: Sequence[Watched] = WATCHED,
    ) -> None:
        self._api = api
        self._intake = intake
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._interval_seconds = interval_seconds
        self._watched = watched
        self._by_path = {
            w.resource.path(namespace): (w, namespace if w.resource.namespaced else None)
            for w in watched
            for namespace in self._namespaces
        }
        self._began: dict[str, None] = {}
        self._news = asyncio.Event()

    async def fill(self) -> None:
        """The first listing: returns when every kind is in the cache, however long that takes."""
        await self._until_done(first=True)
        self._intake.everything(spread_seconds=0.0)

    async def run(self) -> None:
        """Re-list for ever."""
        now = asyncio.get_running_loop().time
        due = now() + self._interval_seconds
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._after_watches_began()
                continue
            except TimeoutError:
                due = now() + self._interval_seconds
            # All kinds are listed now anyway.
            self._began.clear()
            await self._until_done(first=False)
            # Not all at once: the writes of a thousand Rollouts would stand in line behind each other.
            self._intake.everything(spread_seconds=min(30.0, self._interval_seconds / 10))

    def watch_began(self, path: str) -> None:
        """A watch has begun with a listing of this path: what was deleted before that, it will never tell."""
        if path in self._by_path:
            self._began[path] = None
            self._news.set()

    async def _after_watches_began(self) -> None:
        """List once more what watches began with: the listing in the cache may be older than theirs."""
        await self._news.wait()
        await asyncio.sleep(SETTLE_SECONDS)
        self._news.clear()
        while self._began:
            path = next(iter(self._began))
            watched, namespace = self._by_path[path]
            try:
                listing = await self._list(watched, namespace)
            except ApiError as error:
                log.warning("cannot list what a watch began with; trying again", extra={"error": str(error)})
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._began.pop(path, None)
            # Not counted as missed: a watch that is a moment behind will tell most of it.
            self._intake.relisted(watched.resource, listing, namespace=namespace, first=True)

    async def once(self, *, first: bool = False) -> None:
        """List every kind once. Raises ApiError when one of them could not be listed."""
        for watched in self._watched:
            for namespace in self._namespaces if watched.resource.namespaced else (None,):
                listing = await self._list(watched, namespace)
                self._intake.relisted(watched.resource, listing, namespace=namespace, first=first)
                await asyncio.sleep(0)

    async def _list(self, watched: Watched, namespace: str | None) -> Listing:
        try:
            return await self._api.listing(watched.resource, namespace, labels=watched.labels)
        except NotFound:
            if watched.optional:
                return Listing([], "")
            raise

    async def _until_done(self, *, first: bool) -> None:
        seconds, told = RETRY_SECONDS, ""
        while True:
            try:
                await self.once(first=first)
            except ApiError as error:
                if str(error) != told:
                    log.warning("cannot list what is watched; trying again", extra={"error": str(error)})
                    told = str(error)
                await asyncio.sleep(seconds)
                seconds = min(seconds * 2, RETRY_CAP_SECONDS)
            else:
                return
