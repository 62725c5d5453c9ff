"""Whatever opens, ends, fails and dies in whatever order: nobody is told twice but after a doubt, and nobody is forgotten."""

from collections import defaultdict
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright_analysis.kinds.sink import DeliveryState, NotificationSinkStatus
from gatewright_analysis.notify.deliveries import (
    ENDS,
    KEPT,
    LONGEST_PAUSE_SECONDS,
    Letter,
    Outcome,
    after,
    next_round,
)
from gatewright_analysis.notify.notices import OPENING, Notice
from gatewright_analysis.notify.texts import plain
from tests.unit.notices import NOON, PAGER, WEBHOOK, at, held, notices

ROLLOUTS = ("a", "b", "c")
SENT, REFUSED = Outcome(True), Outcome(False, "refused")
UNANSWERED, DIED = Outcome(False, "no answer", uncertain=True), None

outcomes = st.sampled_from([SENT, REFUSED, UNANSWERED, DIED])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.sampled_from(ROLLOUTS)),
        st.tuples(st.just("escalate"), st.sampled_from(ROLLOUTS)),
        st.tuples(st.just("end"), st.sampled_from(ROLLOUTS)),
        st.tuples(st.just("round"), outcomes),
    ),
    max_size=40,
)


class Story:
    """A sink, the Rollouts that it is told of, and everything that arrived or may have."""

    def __init__(self, *, pager: bool) -> None:
        self.spec = PAGER if pager else WEBHOOK
        self.status = NotificationSinkStatus()
        self.now: datetime = NOON
        self.runs: defaultdict[str, int] = defaultdict(int)
        self.holds: dict[str, bool] = {}
        self.letters: defaultdict[str, list[tuple[Letter, Outcome | None]]] = defaultdict(list)

    def standing(self) -> tuple[Notice, ...]:
        found: list[Notice] = []
        for name, escalated in self.holds.items():
            run = f"{name}-0123456789-1-{self.runs[name]}"
            found += notices(held(run=run, escalated_at=at(1) if escalated else None), name)
        return tuple(found)

    def do(self, what: str, which: str | Outcome | None) -> None:
        match what:
            case "hold" if isinstance(which, str) and which not in self.holds:
                self.runs[which] += 1
                self.holds[which] = False
            case "escalate" if which in self.holds:
                self.holds[str(which)] = True
            case "end":
                self.holds.pop(str(which), None)
            case "round" if not isinstance(which, str):
                self.round(which)
        self.now += timedelta(seconds=1)

    def round(self, outcome: Outcome | None) -> int:
        todo = next_round(self.spec, self.status, self.standing(), self.now)
        self.status = todo.status
        for letter in todo.letters:
            self.letters[letter.notice.key].append((letter, outcome))
        if outcome is not None:
            by_key = {letter.notice.key: outcome for letter in todo.letters}
            self.status = after(self.status, by_key, self.now, 0.5)
        return len(todo.letters)

    def settle(self) -> None:
        """The sink takes everything, for as long as there is something."""
        for _ in range(20):
            self.now += timedelta(seconds=LONGEST_PAUSE_SECONDS)
            if not self.round(SENT):
                return
        raise AssertionError("there is always one more to send")


def _told(pager: bool, story: list[tuple[str, str | Outcome | None]]) -> Story:
    told = Story(pager=pager)
    for what, which in story:
        told.do(what, which)
    told.settle()
    return told


@settings(max_examples=150)
@given(st.booleans(), steps)
def test_nothing_is_sent_twice_but_after_a_doubt(
    pager: bool, story: list[tuple[str, str | Outcome | None]]
) -> None:
    for letters in _told(pager, story).letters.values():
        doubtful = False
        for number, (letter, outcome) in enumerate(letters):
            assert letter.repetition == doubtful, "a repetition is marked as one, and nothing else is"
            before = [o for _, o in letters[:number]]
            assert SENT not in before, "what was taken is not sent again"
            doubtful = doubtful or outcome in (UNANSWERED, DIED)


@settings(max_examples=150)
@given(st.booleans(), steps)
def test_what_stands_is_told_in_the_end(pager: bool, story: list[tuple[str, str | Outcome | None]]) -> None:
    told = _told(pager, story)
    arrived = {key for key, letters in told.letters.items() if letters[-1][1] == SENT}
    assert {n.key for n in told.standing()} <= arrived
    assert told.status.waiting == 0


@settings(max_examples=150)
@given(steps)
def test_a_pager_has_no_incident_open_of_what_is_over(story: list[tuple[str, str | Outcome | None]]) -> None:
    told = _told(True, story)
    standing = {n.subject for n in told.standing()}
    opened: set[str] = set()
    ended: set[str] = set()
    for letters in told.letters.values():
        for letter, outcome in letters:
            if outcome != REFUSED:
                (opened if letter.notice.kind in OPENING else ended).add(letter.notice.subject)
    assert ended <= opened, "only what may have arrived is ended"
    assert opened - standing <= ended, "whatever may have opened an incident is ended with its hold"
    assert not ended & standing


@settings(max_examples=15)
@given(st.booleans(), steps)
def test_what_is_kept_is_bounded(pager: bool, story: list[tuple[str, str | Outcome | None]]) -> None:
    told = _told(pager, story)
    for _ in range(KEPT + 5):
        told.do("hold", "a")
        told.round(SENT)
        told.do("end", "a")
        told.round(SENT)
    over = [d for d in told.status.deliveries if d.kind not in ENDS]
    assert len(over) <= KEPT + len(told.standing())
    assert all(d.state is not DeliveryState.SENDING for d in told.status.deliveries)


@settings(max_examples=60)
@given(st.text(max_size=200), st.integers(1, 300))
def test_plain_text_is_one_printable_line_within_bounds(text: str, longest: int) -> None:
    line = plain(text, longest)
    assert line.isprintable() and len(line) <= longest
    assert plain(line, longest) == line
