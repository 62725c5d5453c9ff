"""Counters, gauges and histograms in the Prometheus text format: as much of it as one process with one page
needs."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

Labels = tuple[str, ...]

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets for short waits."""
LONG_SECONDS = (1.0, 10.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0, 21600.0, 86400.0)
"""Buckets for what takes minutes to a day."""


class _Family:
    """One metric name with its labels."""

    kind = "untyped"

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.help_text = help_text
        self.labels = tuple(labels)

    def _key(self, given: dict[str, str]) -> Labels:
        if set(given) != set(self.labels):
            raise ValueError(f"{self.name} has the labels {self.labels}, not {tuple(given)}")
        return tuple(given[label] for label in self.labels)

    def _series(self, suffix: str, values: Labels, extra: str = "") -> str:
        pairs = [f'{label}="{_escape(value)}"' for label, value in zip(self.labels, values, strict=True)]
        pairs += [extra] if extra else []
        return f"{self.name}{suffix}{{{','.join(pairs)}}}" if pairs else f"{self.name}{suffix}"

    def samples(self) -> Iterator[str]:
        """The metric's lines, without the comments above them."""
        raise NotImplementedError


class Counter(_Family):
    """Only goes up."""

    kind = "counter"

    def __init__(self, name: str, help_text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, help_text, labels)
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def inc(self, amount: float = 1.0, **labels: str) -> None:
        """Count `amount` more. Raises ValueError for a negative amount or other labels than declared."""
        if amount < 0:
            raise ValueError(f"{self.name} only goes up; {amount} was given")
        key = self._key(labels)
        self._values[key] = self._values.get(key, 0.0) + amount

    def value(self, **labels: str) -> float:
        """What was counted so far."""
        return self._values.get(self._key(labels), 0.0)

    def samples(self) -> Iterator[str]:
        for key, value in self._values.items():
            yield f"{self._series('', key)} {_number(value)}"


class Gauge(_Family):
    """The present value of something; `read` gives it at the time of a scrape instead of `set`."""

    kind = "gauge"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        *,
        read: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(name, help_text, labels)
        self._values: dict[Labels, float] = {}
        self.read = read

    def set(self, value: float, **labels: str) -> None:
        """Set the value."""
        self._values[self._key(labels)] = value

    def value(self, **labels: str) -> float:
        """The value; NaN when never set."""
        return self._values.get(self._key(labels), math.nan)

    def values(self) -> tuple[float, ...]:
        """Of all its series."""
        return tuple(self._values.values())

    def remove(self, **labels: str) -> None:
        """Drop a series, because what it spoke about is gone."""
        self._values.pop(self._key(labels), None)

    def samples(self) -> Iterator[str]:
        if self.read is not None:
            yield f"{self._series('', ())} {_number(self.read())}"
        for key, value in self._values.items():
            yield f"{self._series('', key)} {_number(value)}"


class Histogram(_Family):
    """How often a value fell at or below each bucket boundary, with sum and count."""

    kind = "histogram"

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = SECONDS
    ) -> None:
        super().__init__(name, help_text, labels)
        self._buckets = tuple(sorted(buckets))
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        """Count one value."""
        key = self._key(labels)
        counts = self._counts.setdefault(key, [0] * (len(self._buckets) + 1))
        counts[bisect_left(self._buckets, value)] += 1
        self._sums[key] = self._sums.get(key, 0.0) + value

    def count(self, **labels: str) -> int:
        """How many values were observed."""
        return sum(self._counts.get(self._key(labels), ()))

    def samples(self) -> Iterator[str]:
        for key, counts in self._counts.items():
            total = 0
            for boundary, count in zip((*self._buckets, math.inf), counts, strict=True):
                total += count
                upper = f'le="{_number(boundary)}"'
                yield f"{self._series('_bucket', key, upper)} {total}"
            yield f"{self._series('_sum', key)} {_number(self._sums[key])}"
            yield f"{self._series('_count', key)} {total}"


class Metrics:
    """Every metric of the operator; what each part may count stands here and nowhere else."""

    def __init__(self) -> None:
        # What the gate decided
        self.verdicts = Counter(
            "gatewright_verdicts_total", "Verdicts by decision and reason.", ("decision", "reason")
        )
        self.time_to_decision = Histogram(
            "gatewright_time_to_decision_seconds",
            "From the start of a gate to its verdict.",
            ("decision",),
            buckets=LONG_SECONDS,
        )
        look = ("namespace", "rollout", "step", "check")
        self.check_good_ratio = Gauge(
            "gatewright_check_good_ratio", "Estimate of a running gate's check as of its last look.", look
        )
        self.check_lower_bound = Gauge(
            "gatewright_check_lower_bound",
            "Wilson lower bound of the same, which must reach the threshold.",
            look,
        )
        self.check_upper_bound = Gauge(
            "gatewright_check_upper_bound", "Wilson upper bound of the same.", look
        )
        self.check_threshold = Gauge(
            "gatewright_check_threshold", "The good ratio that the contract promises.", look
        )
        self.check_samples = Gauge("gatewright_check_samples", "Events counted for the check so far.", look)
        self.held_since = Gauge(
            "gatewright_held_since_timestamp_seconds",
            "Unix time since when a Rollout is held; no series when it is not.",
            ("namespace", "rollout"),
        )
        self.held_age = Gauge(
            "gatewright_held_age_seconds",
            "For how long the Rollout that has waited longest is held; 0 when none is.",
        )
        self.hold_clock_stopped = Gauge(
            "gatewright_hold_clock_stopped",
            "1 while the wait of a held Rollout does not count, because a source is down; no series otherwise.",
            ("namespace", "rollout"),
        )
        self.escalations = Counter(
            "gatewright_escalations_total", "HOLDs that were escalated, by what did it.", ("by",)
        )
        self.time_to_human_decision = Histogram(
            "gatewright_time_to_human_decision_seconds",
            "From a HOLD to the ledger entry of a person's review or order about it.",
            ("decision",),
            buckets=LONG_SECONDS,
        )
        self.waivers_active = Gauge(
            "gatewright_waivers_active", "Waivers in force.", ("namespace", "rollout")
        )
        self.ledger_sequence = Gauge(
            "gatewright_ledger_sequence",
            "Sequence number of the ledger's last entry.",
            ("namespace", "rollout"),
        )
        self.provider_errors = Counter(
            "gatewright_provider_errors_total", "Evidence that could not be used.", ("source", "reason")
        )
        self.tick_lag = Histogram(
            "gatewright_tick_lag_seconds", "How late a gate's look was taken.", buckets=SECONDS
        )
        self.notifications = Counter(
            "gatewright_notifications_total",
            "Attempts to tell a sink, by outcome: Sent, Failed, GivenUp.",
            ("sink", "outcome"),
        )
        self.notifications_waiting = Gauge(
            "gatewright_notifications_waiting", "Notifications that wait for another attempt.", ("sink",)
        )
        # How the operator itself is
        self.reconciles = Histogram(
            "gatewright_reconcile_seconds", "Duration of reconciles by kind and outcome.", ("kind", "outcome")
        )
        self.api_calls = Counter(
            "gatewright_api_calls_total",
            "Calls to the API server (code 0: no answer came).",
            ("verb", "resource", "code"),
        )
        self.api_wait = Counter(
            "gatewright_api_throttle_seconds_total", "Time that writes waited for the rate limit."
        )
        self.watch_events = Counter("gatewright_watch_events_total", "Events seen, by kind.", ("resource",))
        self.missed_events = Counter(
            "gatewright_missed_events_total",
            "Changes that a re-list found and no watch had told.",
            ("resource",),
        )
        self.watch_restarts = Counter(
            "gatewright_watch_restarts_total", "How often all watches had to be started anew."
        )
        self.events_dropped = Counter(
            "gatewright_events_dropped_total",
            "Kubernetes Events that were not posted, by cause.",
            ("cause",),
        )
        self.stalls = Counter(
            "gatewright_loop_stalls_total", "How often the event loop stood still for over 100 ms."
        )
        self.loop_lag = Gauge(
            "gatewright_loop_lag_seconds", "Longest stall of the event loop in the last 10 s."
        )
        self.watch_age = Gauge(
            "gatewright_watch_age_seconds", "Seconds since the last watch event or complete re-list."
        )
        self.queue_due = Gauge("gatewright_queue_due", "Keys that wait for a worker.")
        self.queue_oldest = Gauge(
            "gatewright_queue_oldest_due_seconds", "For how long the first key in line has waited."
        )
        self.leading = Gauge("gatewright_leading", "1 while this process holds the Lease.")
        self.lease_transitions = Gauge(
            "gatewright_lease_transitions", "How often the Lease changed hands, as far as this process saw."
        )

    def render(self) -> str:
        """The page for a scrape (text format 0.0.4)."""
        lines: list[str] = []
        for family in vars(self).values():
            if isinstance(family, _Family) and (samples := list(family.samples())):
                lines += [
                    f"# HELP {family.name} {family.help_text}",
                    f"# TYPE {family.name} {family.kind}",
                    *samples,
                ]
        return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == math.trunc(value) else str(float(value))


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
