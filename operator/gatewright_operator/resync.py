"""A full re-list of everything watched, every few minutes: repairs missed events and drops what is gone.

After a long disconnect a watch starts anew and never tells of objects that were deleted meanwhile; nothing
but a listing finds them. The first one fills the cache before any decision is made.
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

    async def fill(self) -> None:
        """The first listing: returns when every kind is in the cache, however long that takes."""
        await self._until_done(first=True)
        self._intake.everything(spread_seconds=0.0)

    async def run(self) -> None:
        """Re-list for ever."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            await self._until_done(first=False)
            # Not all at once: the writes of a thousand Rollouts would stand in line behind each other.
            self._intake.everything(spread_seconds=min(30.0, self._interval_seconds / 10))

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
