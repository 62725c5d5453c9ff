"""The ledger in its ConfigMaps: read once, verified, appended to by compare-and-swap. Its bytes are `gatewright_analysis.ledger`."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from gatewright_analysis.kinds.rollout import LedgerStatus
from gatewright_analysis.ledger import (
    Actor,
    Draws,
    EntryKey,
    EntryKind,
    Head,
    Ledger,
    LedgerBroken,
    LedgerContentError,
    LedgerMemory,
    NewEntry,
    Segment,
    fold,
    segment_index,
    segment_name,
)
from gatewright_analysis.names import LEDGER_LABEL
from gatewright_operator.api import Api
from gatewright_operator.clock import Clock, utc_now
from gatewright_operator.errors import Conflict, Unavailable
from gatewright_operator.plan.actions import AppendLedger
from gatewright_operator.resources import CONFIGMAPS
from gatewright_operator.world import World

Json = dict[str, Any]

BACK_PATIENCE_SECONDS = 1.0
"""How long traffic on its way back waits for its entry."""


@dataclass(slots=True)
class _Held:
    """One Rollout's ledger as last read or written, with the resourceVersion of each segment."""

    uid: str
    ledger: Ledger
    memory: LedgerMemory
    broken: str
    seen: LedgerStatus
    """The head that stood in status when it was read."""
    versions: dict[int, str] = field(default_factory=dict)


class LedgerStore:
    """All ledgers that one operator process writes."""

    def __init__(self, api: Api, *, clock: Clock = utc_now) -> None:
        self._api = api
        self._clock = clock
        self._held: dict[tuple[str, str], _Held] = {}

    def forget(self, namespace: str, rollout: str) -> None:
        """The next use reads it anew."""
        self._held.pop((namespace, rollout), None)

    def head(self, namespace: str, rollout: str) -> LedgerStatus:
        """What status is to say. A head that status knows is never replaced by one of a ledger that does not verify:
        the next reader would take the change for what was always there."""
        held = self._held.get((namespace, rollout))
        if held is not None and held.broken:
            return held.seen
        head = held.ledger.head if held is not None else None
        if head is None:
            return LedgerStatus()
        return LedgerStatus(segment=head.segment, sequence=head.sequence, head=head.digest)

    async def memory(self, world: World) -> tuple[LedgerMemory, str]:
        """What it remembers of this Rollout, and why it does not verify (empty when it does)."""
        held = await self._load(world)
        return held.memory, held.broken

    def contract(self, namespace: str, rollout: str, digest: str) -> Json | None:
        """Body of the entry that keeps a contract: name, generation, spec. None when there is no such entry."""
        held = self._held.get((namespace, rollout))
        if held is None:
            return None
        found = (
            e.body for e in held.ledger.entries if e.key.kind == EntryKind.CONTRACT and e.key.cause == digest
        )
        body = next(found, None)
        return None if body is None else dict(body)

    def draws(self, namespace: str, rollout: str) -> Draws:
        """What sampled checks have come to, as far as the ledger was read."""
        held = self._held.get((namespace, rollout))
        return Draws() if held is None else held.memory.draws

    async def append(self, world: World, action: AppendLedger) -> None:
        """Raises Conflict when somebody else wrote (plan again), ApiError when it can't be written, LedgerBroken (a ValueError)."""
        if action.required:
            await self._append(world, action)
            return
        try:
            async with asyncio.timeout(BACK_PATIENCE_SECONDS):
                await self._append(world, action)
        except TimeoutError:
            # Whether the write arrived is not known: read before the next one.
            self.forget(world.namespace, world.name)
            raise Unavailable("the ledger did not answer in time") from None

    async def _append(self, world: World, action: AppendLedger) -> None:
        held = await self._load(world)
        now = self._clock()
        new = [
            NewEntry(
                key=EntryKey(held.uid, e.revision, e.step, e.attempt, e.kind, e.cause),
                at=now,
                body=e.body,
                actor=Actor() if e.actor == "operator" else Actor("user", e.actor),
                late=action.late,
            )
            for e in action.entries
        ]
        appended = held.ledger.append(new)
        try:
            for write in appended.writes:
                held.versions[write.segment.index] = await self._write(
                    world, held, write.segment, write.create
                )
        except BaseException:
            self.forget(world.namespace, world.name)
            raise
        held.ledger = appended.ledger
        held.memory = fold(held.ledger.entries, rollout_uid=held.uid)

    async def _write(self, world: World, held: _Held, segment: Segment, create: bool) -> str:
        name = segment_name(world.name, segment.index)
        body: Json = {
            "apiVersion": CONFIGMAPS.api_version,
            "kind": CONFIGMAPS.kind,
            "metadata": {"name": name, "namespace": world.namespace, "labels": {LEDGER_LABEL: world.name}},
            "data": segment.data,
        }
        if segment.sealed:
            body["immutable"] = True
        if create:
            answer = await self._api.create(CONFIGMAPS, world.namespace, body)
        else:
            version = held.versions.get(segment.index)
            if version is None:
                raise Conflict(f"{name} was never read")
            body["metadata"]["resourceVersion"] = version
            answer = await self._api.replace(CONFIGMAPS, world.namespace, name, body)
        return str(answer["metadata"]["resourceVersion"])

    async def _load(self, world: World) -> _Held:
        key, uid = (world.namespace, world.name), world.parsed.metadata.uid
        held = self._held.get(key)
        seen = world.parsed.status.ledger
        # A broken one is read each time: somebody may have put it back as it was. And one that is behind what status
        # reports has been written by another operator: to plan from it would be to go on with what that one has ended.
        if held is not None and held.uid == uid and not held.broken and not _behind(held.ledger.head, seen):
            return held
        raws = await self._api.list(CONFIGMAPS, world.namespace, labels=f"{LEDGER_LABEL}={world.name}")
        segments, versions = [], {}
        for raw in raws:
            index = segment_index(world.name, raw["metadata"]["name"])
            if index is not None:
                segments.append(Segment.of(index, raw.get("data"), sealed=bool(raw.get("immutable"))))
                versions[index] = raw["metadata"]["resourceVersion"]
        heads = [Head(seen.segment, seen.sequence, seen.head)] if seen.head is not None else []
        ledger = Ledger.read(segments, heads=heads)
        broken = str(LedgerBroken(ledger.broken)) if ledger.broken is not None else ""
        try:
            memory = fold(ledger.entries, rollout_uid=uid)
        except LedgerContentError as error:
            memory, broken = LedgerMemory(), str(error)
        held = _Held(uid, ledger, memory, broken, seen, versions)
        self._held[key] = held
        return held


def _behind(head: Head | None, seen: LedgerStatus) -> bool:
    return seen.head is not None and (head is None or head.sequence < seen.sequence)
