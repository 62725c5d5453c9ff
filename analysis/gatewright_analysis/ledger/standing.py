"""Orders that count beyond the moment at which they were obeyed: a Pause until its Resume, an Override until its end."""

from dataclasses import dataclass, replace
from datetime import datetime

from gatewright_analysis.kinds.review import GateOrderSpec, OrderKind
from gatewright_analysis.ledger.entry import Entry


@dataclass(frozen=True, slots=True)
class StandingPause:
    """The version goes no further until a Resume."""

    revision: str
    by: str
    why: str
    at: datetime
    order: str
    """Name of the GateOrder."""


@dataclass(frozen=True, slots=True)
class GivenOverride:
    """The version was sent past its gates; with `ignore_breach` breaches do not roll back before `expires_at`."""

    revision: str
    step: str
    """Where it was when this was ordered."""
    attempt: int
    to: str
    """`Promote`, or the index of a step."""
    ignore_breach: bool
    by: str
    why: str
    at: datetime
    expires_at: datetime
    order: str
    """Name of the GateOrder."""


@dataclass(frozen=True, slots=True)
class StandingOrders:
    """Of the version on its way; those about another have ended with it."""

    pause: StandingPause | None = None
    resumed_at: datetime | None = None
    """When a person last sent it on."""
    override: GivenOverride | None = None

    def about(self, revision: str) -> "StandingOrders":
        """What of it counts for a version that begins now: nothing that was ordered about another."""
        pause, override = self.pause, self.override
        return StandingOrders(
            pause=pause if pause is not None and pause.revision == revision else None,
            override=override if override is not None and override.revision == revision else None,
        )


def heeded(orders: StandingOrders, entry: Entry, spec: GateOrderSpec) -> StandingOrders:
    """The orders after one more: a Pause, a Resume or an Override. A Pause on top of a Pause changes nothing."""
    match spec.order:
        case OrderKind.PAUSE if orders.pause is None or orders.pause.revision != entry.key.revision:
            pause = StandingPause(entry.key.revision, spec.ordered_by, spec.reason, entry.at, _name(entry))
            return replace(orders, pause=pause)
        case OrderKind.RESUME:
            return unpaused(orders, entry)
        case OrderKind.OVERRIDE if spec.override is not None and spec.expires_at is not None:
            given = GivenOverride(
                revision=entry.key.revision,
                step=entry.key.step,
                attempt=entry.key.attempt,
                to=spec.override.to,
                ignore_breach=spec.override.ignore_breach,
                by=spec.ordered_by,
                why=spec.reason,
                at=entry.at,
                expires_at=spec.expires_at,
                order=_name(entry),
            )
            return replace(unpaused(orders, entry), override=given)
        case _:
            return orders


def unpaused(orders: StandingOrders, entry: Entry) -> StandingOrders:
    """A person sent it on."""
    return replace(orders, pause=None, resumed_at=entry.at)


def _name(entry: Entry) -> str:
    return str(entry.body.get("name", ""))
