"""How the demo is shown: a panel that changes in place on a terminal, else a line for each change."""

import sys
from types import TracebackType
from typing import Protocol, Self

from devcluster.demo.look import CANARY, STABLE, Look
from devcluster.demo.numbers import ArmCounts, CheckLook

_NUMBERS_EVERY_SECONDS = 4.0
_WORDS = {STABLE: "stable", CANARY: "canary"}


class View(Protocol):
    """Where everything goes that the demo says."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def say(self, text: str = "") -> None:
        """A line, or several, that stay."""

    def quote(self, text: str) -> None:
        """What a command printed, line for line."""

    def title(self, text: str) -> None:
        """The heading of what comes now."""

    def show(self, look: Look) -> None:
        """How the release stands; called several times a second."""

    def clear(self) -> None:
        """Nothing is under way any more."""


def view_of_stdout() -> View:
    """The view that fits where the output goes."""
    if sys.stdout.isatty():
        # A pipe or a log needs none of it.
        from devcluster.demo.panel import PanelView

        return PanelView()
    return PlainView()


class PlainView:
    """Lines alone, each flushed, so that a log can be followed."""

    def __init__(self) -> None:
        self._shown: tuple[object, ...] | None = None
        self._numbers_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, text: str = "") -> None:
        print(text, flush=True)

    def quote(self, text: str) -> None:
        self.say(f"{text.rstrip()}\n")

    def title(self, text: str) -> None:
        self._shown, self._numbers_at = None, 0.0
        self.say(f"\n== {text}")

    def show(self, look: Look) -> None:
        if look.transition != self._shown:
            self._shown = look.transition
            where = f"{look.phase}, {look.step}" if look.step else look.phase
            self.say(
                f"{look.seconds:6.1f} s  {where}, weight {look.actual} % of {look.desired} %: {look.message}"
            )
        if look.checks and look.seconds >= self._numbers_at + _NUMBERS_EVERY_SECONDS:
            self._numbers_at = look.seconds
            for check in look.checks:
                self.say(f"{'':10}{check.check}: {estimate(check)}")
            self.say(f"{'':10}gateway: {'; '.join(arms(look))}")

    def clear(self) -> None:
        self._shown = None


def estimate(check: CheckLook) -> str:
    """A check's estimate, its bounds, and what the lower one must reach."""
    return (
        f"{share(check.good_ratio)} good, bounds {share(check.lower_bound)} to {share(check.upper_bound)}, "
        f"must prove {share(check.threshold)} (n {check.samples})"
    )


def arms(look: Look) -> list[str]:
    """What the gateway has counted for each arm."""
    return [f"{_WORDS[name]} {arm(counts)}" for name, counts in look.arms.items()]


def arm(counts: ArmCounts) -> str:
    """Requests, and the share of them that failed."""
    bad = share(counts.bad / counts.requests) if counts.requests else "–"
    return f"{counts.requests} requests, {bad} failed"


def share(ratio: float) -> str:
    """A ratio in percent."""
    return f"{100 * ratio:.1f} %"
