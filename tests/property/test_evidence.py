"""Invariants of evidence: what is counted was there, and neither looks, restarts nor outages change it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.evidence.buckets import is_boundary, le_pattern
from gatewright_analysis.evidence.model import Counts, Fault, Tick, Window
from gatewright_analysis.evidence.promql import Matcher, Selector, parse_selector
from gatewright_analysis.evidence.windows import Grid
from gatewright_analysis.providers.fake import FakeReader
from gatewright_analysis.reasons import Reason
from tests.unit.evidence_world import T0, Pod, canary_pod, collector, look, stable_pod

END = 40
OUTAGE = Fault(Reason.UNREACHABLE, "the source can't be reached")


@dataclass(frozen=True)
class Second:
    """What one pod does in one second: requests, and whether it begins anew before them, or is not scraped
    after.
    """

    ok: int
    failed: int
    restart: bool
    scraped: bool


def seconds(*, whole: bool) -> st.SearchStrategy[list[Second]]:
    """A life from 20 s before t0 on. `whole` lives are scraped every second."""
    scraped = st.just(True) if whole else st.sampled_from([True] * 7 + [False])
    restart = st.sampled_from([False] * 19 + [True])
    one = st.builds(Second, st.integers(0, 5), st.integers(0, 3), restart, scraped)
    return st.lists(one, min_size=20 + END, max_size=20 + END)


class SlowReader(FakeReader):
    """Stores each sample a while after its time, as scrapes that take long do; `now` decides what is there."""

    def __init__(self, delay_seconds: float) -> None:
        super().__init__()
        self.delay_seconds = delay_seconds
        self._waiting: list[tuple[float, str, Mapping[str, str], float]] = []

    def put(self, metric: str, labels: Mapping[str, str], at: float, value: float) -> None:
        self._waiting.append((at, metric, labels, value))

    def advance(self, now: float) -> None:
        """Store what was scraped long enough before `now` seconds after t0."""
        due = [one for one in self._waiting if one[0] + self.delay_seconds <= T0 + now]
        self._waiting = [one for one in self._waiting if one[0] + self.delay_seconds > T0 + now]
        for at, metric, labels, value in due:
            super().put(metric, labels, at, value)


@dataclass
class World:
    """Lives played into a reader, and what was truly served in each window."""

    reader: SlowReader
    served: dict[tuple[bool, int], Counts]


def play(canaries: list[list[Second]], stable: list[Second], *, delay_seconds: float = 0.0) -> World:
    world = World(SlowReader(delay_seconds), {})
    pods: list[tuple[Pod, list[Second], bool]] = [
        (canary_pod(f"aaaa{index}", offset=0.1 + 0.2 * index), life, True)
        for index, life in enumerate(canaries)
    ]
    pods.append((stable_pod(offset=0.7), stable, False))
    for pod, life, is_canary in pods:
        # All counters exist from the first scrape on, so that the scrape before it is not what is tested
        # here.
        pod.requests(1, 1)
        for index, second in enumerate(life):
            if second.restart:
                pod.restart()
            pod.requests(second.ok, second.failed)
            at = index - 20 + pod.offset
            window = int(at // 10)
            before = world.served.get((is_canary, window), Counts(0, 0))
            world.served[is_canary, window] = before + Counts(second.ok, second.failed)
            if second.scraped:
                pod.scrape_into(world.reader, T0 + at)
    if not delay_seconds:
        world.reader.advance(2.0 * END)
    return world


LIVES = st.lists(seconds(whole=True), min_size=1, max_size=3)
BROKEN_LIVES = st.lists(seconds(whole=False), min_size=1, max_size=3)


def undercounted(window: Window, world: World) -> bool:
    """A restarted process whose counter is no lower at the next scrape hides what it counted before."""
    return window.canary.n <= world.served[True, window.index].n


@settings(max_examples=30, deadline=None)
@given(LIVES, seconds(whole=True))
def test_without_holes_every_window_counts_what_was_served(
    canaries: list[list[Second]], stable: list[Second]
) -> None:
    calm = [[Second(s.ok, s.failed, False, True) for s in life] for life in canaries]
    world = play(calm, [Second(s.ok, s.failed, False, True) for s in stable])
    windows = look(collector(), world.reader, END - 1.0)
    assert [window.index for window in windows] == [0, 1, 2]
    for window in windows:
        assert window.fault is None
        assert window.canary == world.served[True, window.index]
        assert window.stable == world.served[False, window.index]


@settings(max_examples=30, deadline=None)
@given(LIVES, seconds(whole=True))
def test_restarts_never_invent_requests(canaries: list[list[Second]], stable: list[Second]) -> None:
    world = play(canaries, stable)
    for window in look(collector(), world.reader, END - 1.0):
        if window.fault is None:
            assert undercounted(window, world)


@settings(max_examples=40, deadline=None)
@given(
    BROKEN_LIVES,
    seconds(whole=False),
    st.lists(st.floats(-15, END - 1.01), max_size=12),
    st.sets(st.integers(0, 11)),
    st.sampled_from([0.001, 0.3, 0.95]),
)
def test_looks_restarts_and_outages_change_no_window(
    canaries: list[list[Second]], stable: list[Second], times: list[float], outages: set[int], delay: float
) -> None:
    world = play(canaries, stable, delay_seconds=delay)
    own = collector()
    seen: list[Window] = []
    for index, now in enumerate(sorted(times)):
        world.reader.advance(now)
        world.reader.fault = OUTAGE if index in outages else None
        seen += look(own, world.reader, now)
    world.reader.fault = None
    world.reader.advance(2.0 * END)
    seen += look(own, world.reader, END - 1.0)
    assert tuple(seen) == look(collector(), world.reader, END - 1.0)


@settings(max_examples=30, deadline=None)
@given(BROKEN_LIVES, seconds(whole=False), st.floats(0.5, END - 1.0))
def test_a_tick_never_changes_once_all_of_its_samples_are_there(
    canaries: list[list[Second]], stable: list[Second], now: float
) -> None:
    world = play(canaries, stable)

    def ticks_at(now: float) -> dict[int, Tick]:
        own = collector()
        look(own, world.reader, now)
        return {round(tick.end): tick for tick in own.ticks(T0 + now)}

    early, late = ticks_at(now), ticks_at(END - 0.5)
    assert all(late[end] == tick for end, tick in early.items() if end in late and end + 1.0 <= now)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(0, 39))
def test_no_evidence_gives_no_window_before_the_end_and_faults_after_it(looks: int, step: int) -> None:
    own, empty = collector(), FakeReader()
    for index in range(looks):
        assert look(own, empty, float(step + index)) == ()
    assert all(window.fault is not None and window.canary.n == 0 for window in own.finish(T0 + END))


@given(st.text(), st.sampled_from(["=", "!=", "=~", "!~"]))
def test_what_is_inserted_comes_back_as_one_value(value: str, operator: str) -> None:
    selector = Selector("m", (Matcher("a", operator, value), Matcher("b", "=", "c")))  # type: ignore[arg-type]
    if len(selector.render()) <= 512:
        assert parse_selector(selector.render()) == selector


@given(st.text(max_size=60))
def test_any_text_is_refused_by_a_value_error_or_renders_to_itself(text: str) -> None:
    try:
        selector = parse_selector(text)
    except ValueError:
        return
    assert parse_selector(selector.render()) == selector


@given(st.floats(1e-6, 1e6), st.integers(0, 3))
def test_every_usual_spelling_of_a_boundary_is_found_and_no_other_number(le: float, zeros: int) -> None:
    pattern = le_pattern(le)
    exact = Decimal(repr(le))
    plain = format(exact, "f") + ("0" * zeros if "." in format(exact, "f") else "")
    for spelling in {repr(le), plain, f"{exact:E}", f"{exact:e}", f"{exact:g}"}:
        assert is_boundary(spelling, le)
        assert re.fullmatch(pattern, spelling), f"{spelling} means {le}, and {pattern} does not find it"
    assert re.fullmatch(pattern, repr(le * 2)) is None
    assert re.fullmatch(pattern, f"1{le!r}") is None


@given(
    st.floats(1e9, 2e9),
    st.sampled_from([0.2, 1.0, 5.0, 15.0, 30.0]),
    st.integers(2, 40),
    st.floats(-1e4, 1e5),
)
def test_every_moment_is_in_one_window_and_one_tick(
    t0: float, interval: float, scrapes: int, offset: float
) -> None:
    grid = Grid(round(t0, 3), scrapes * interval, interval)
    at = round(grid.t0 + offset, 3)
    start, end = grid.window_bounds(grid.window_at(at))
    assert start - 2e-6 < at <= end + 2e-6
    tick_end = grid.t0 + grid.tick_end(grid.tick_at(at))
    assert tick_end - interval - 2e-6 < at <= tick_end + 2e-6
