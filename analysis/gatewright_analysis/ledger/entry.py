"""One entry: what happened, to what, by whom, and the digest of the entry before it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from gatewright_analysis.kinds.base import Digest, Model, Timestamp, format_time
from gatewright_analysis.ledger.canonical import canonical, digest_of_bytes

GENESIS: Final = "sha256:" + "0" * 64
"""What the first entry has instead of a previous one."""
MAX_ENTRY_BYTES: Final = 768 * 1024
"""A ConfigMap carries 1 MiB; an entry larger than a segment has one of its own."""


class EntryKind(StrEnum):
    """What an entry records. Unknown kinds of later versions are kept and walked over."""

    ADOPTED = "Adopted"
    """The workload came under guard; its stable version."""
    CONTRACT = "Contract"
    """The contract that attempts are pinned to, once per digest, which is the key's cause."""
    STARTED = "Started"
    """An attempt began: stable, canary, and what stood on the user's objects before the first write."""
    WEIGHT_SET = "WeightSet"
    VERDICT = "Verdict"
    """The verdict of a gate, whole, with the statistics that it rests on."""
    BREACH = "Breach"
    """A breach that was proven after a HOLD or an early pass."""
    BLOCKED = "Blocked"
    """While it was held, more was found that blocks: the verdict that takes the place of the one before, and makes
    approvals of that one void."""
    HELD = "Held"
    """A HOLD outside any gate."""
    ESCALATED = "Escalated"
    """A HOLD that nobody decided: the second, louder call. The key's cause is the digest of what is held."""
    REVIEW = "Review"
    """A person's decision on a HOLD; an Approve is a waiver."""
    ORDER = "Order"
    OVERRIDDEN = "Overridden"
    """A person un-paused the Deployment past the gate, by kubectl."""
    BREACH_IGNORED = "BreachIgnored"
    """A breach did not roll back, because an Override in force says so."""
    PROMOTED = "Promoted"
    """The last step's verdict takes effect: the native rolling update begins."""
    COMPLETED = "Completed"
    BACK = "Back"
    """All traffic goes back to stable: why, and what follows."""
    ROLLED_BACK = "RolledBack"
    """All traffic is back, the canary is gone."""
    RESTORING = "Restoring"
    """A promoted version failed: the one before is put back."""
    RESTORED = "Restored"
    DELETED = "Deleted"


class LedgerContentError(ValueError):
    """An entry can't be read: it is not one, or a later version wrote what this one does not know."""


class EntryTooLarge(ValueError):
    """The entry does not fit into a ConfigMap."""


class UnboundVerdict(ValueError):
    """A PROMOTE that speaks of something else than its key, or of no evidence: it must not take effect."""


@dataclass(frozen=True, slots=True)
class EntryKey:
    """What an entry is about. Two entries with one key are one event, written twice; the first counts."""

    rollout_uid: str
    revision: str
    step: str
    """Index of the step, `bake`, or empty where an entry is about no step."""
    attempt: int
    kind: str
    cause: str = ""
    """What made it happen where there can be several: name of the run, UID of the review, digest."""

    @property
    def local(self) -> tuple[str, str, int, str, str]:
        """(revision, step, attempt, kind, cause): the key within one Rollout."""
        return (self.revision, self.step, self.attempt, self.kind, self.cause)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who did it: the operator, or a person by the name the API server knows."""

    kind: Literal["operator", "user"] = "operator"
    name: str = "operator"


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry before it has its place in the chain. `body` is a JSON object."""

    key: EntryKey
    at: datetime
    body: Mapping[str, Any]
    actor: Actor = Actor()
    late: bool = False
    """Written after its effect: only what moves traffic back to stable may be."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry in its place. `text` is what is stored, byte for byte; the next entry holds its digest."""

    sequence: int
    previous: str
    key: EntryKey
    at: datetime
    actor: Actor
    late: bool
    body: Mapping[str, Any]
    text: str

    @property
    def digest(self) -> str:
        return digest_of_bytes(self.text.encode())

    @classmethod
    def chained(cls, new: NewEntry, *, sequence: int, previous: str) -> "Entry":
        """`new` as number `sequence` after the entry with the digest `previous`.

        Raises UnboundVerdict, EntryTooLarge, and TypeError for a body that is no JSON.
        """
        _check_binding(new)
        data = canonical(
            {
                "sequence": sequence,
                "previous": previous,
                "at": format_time(new.at),
                "key": {
                    "rolloutUID": new.key.rollout_uid,
                    "revision": new.key.revision,
                    "step": new.key.step,
                    "attempt": new.key.attempt,
                    "kind": new.key.kind,
                    "cause": new.key.cause,
                },
                "actor": {"kind": new.actor.kind, "name": new.actor.name},
                "late": new.late,
                "body": new.body,
            }
        )
        if len(data) > MAX_ENTRY_BYTES:
            raise EntryTooLarge(
                f"the entry {new.key.kind} has {len(data) // 1024} KiB; {MAX_ENTRY_BYTES // 1024} KiB fit"
            )
        return cls.parse(data.decode())

    @classmethod
    def parse(cls, text: str) -> "Entry":
        """Read an entry as it is stored. Raises LedgerContentError; also when it is not in canonical form."""
        try:
            value = json.loads(text)
            stored = _Stored.model_validate(value)
            again = canonical(value)
        except (ValueError, TypeError, RecursionError) as error:
            detail = _first_line(error)
            raise LedgerContentError(f"it is no ledger entry: {detail}") from error
        if again.decode() != text:
            raise LedgerContentError("it is not in canonical form (RFC 8785)")
        key = stored.key
        return cls(
            sequence=stored.sequence,
            previous=stored.previous,
            key=EntryKey(key.rollout_uid, key.revision, key.step, key.attempt, key.kind, key.cause),
            at=stored.at,
            actor=Actor(stored.actor.kind, stored.actor.name),
            late=stored.late,
            body=value["body"],
            text=text,
        )


class _StoredKey(Model):
    rollout_uid: Annotated[str, Field(alias="rolloutUID")]
    revision: str
    step: str
    attempt: Annotated[int, Field(ge=0, strict=True)]
    kind: Annotated[str, Field(min_length=1)]
    cause: str


class _StoredActor(Model):
    kind: Literal["operator", "user"]
    name: str


class _Stored(Model):
    sequence: Annotated[int, Field(ge=0, strict=True)]
    previous: Digest
    at: Timestamp
    key: _StoredKey
    actor: _StoredActor
    late: Annotated[bool, Field(strict=True)]
    body: dict[str, Any]


def _check_binding(new: NewEntry) -> None:
    """A verdict that lets the new version on speaks of exactly what its key names, and of frozen evidence."""
    if new.key.kind != EntryKind.VERDICT:
        return
    verdict = new.body.get("verdict")
    if not isinstance(verdict, Mapping):
        raise UnboundVerdict("an entry of the kind Verdict holds the verdict")
    if verdict.get("decision") != "PROMOTE":
        return
    change = verdict.get("change") or {}
    said = (change.get("revision"), verdict.get("step"), verdict.get("attempt"))
    if said != (new.key.revision, new.key.step, new.key.attempt):
        raise UnboundVerdict(
            f"the verdict is about (revision, step, attempt) = {said}, its entry about "
            f"{(new.key.revision, new.key.step, new.key.attempt)}"
        )
    for what in ("contractDigest", "worldSnapshot"):
        if not change.get(what):
            raise UnboundVerdict(f"a PROMOTE without {what} is bound to nothing")
    if not verdict.get("evidenceDigest"):
        raise UnboundVerdict("a PROMOTE without evidenceDigest is bound to nothing")


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
    return str(error).split("\n", 1)[0][:200]
