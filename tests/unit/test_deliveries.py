"""What was sent, what is sent next, and what is kept of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from gatewright_analysis.kinds.sink import (
    DeliveryState,
    NoticeKind,
    NotificationSinkSpec,
    NotificationSinkStatus,
)
from gatewright_analysis.notify.deliveries import (
    AT_ONCE,
    ATTEMPTS,
    KEPT,
    LONGEST_PAUSE_SECONDS,
    Letter,
    Outcome,
    after,
    due_at,
    next_round,
    pause_seconds,
)
from gatewright_analysis.notify.notices import Notice
from tests.unit.notices import NOON, PAGER, WEBHOOK, at, held, notices

SENT = Outcome(True)
REFUSED = Outcome(False, "The sink can't be reached.")
UNANSWERED = Outcome(False, "The sink gave no answer within 10 s.", uncertain=True)
HELD = notices(held())
NOTHING = NotificationSinkStatus()


class Book:
    """A sink's status over rounds; each round's letters all meet the same outcome."""

    def __init__(self, spec: NotificationSinkSpec = WEBHOOK) -> None:
        self.spec = spec
        self.status = NOTHING
        self.now: datetime = NOON

    def round(
        self, standing: tuple[Notice, ...], outcome: Outcome | None, **options: Any
    ) -> tuple[Letter, ...]:
        """None: the operator dies between the mark and the report."""
        todo = next_round(self.spec, self.status, standing, self.now, **options)
        self.status = todo.status
        if outcome is not None and todo.letters:
            by_key = {letter.notice.key: outcome for letter in todo.letters}
            self.status = after(self.status, by_key, self.now, 0.0)
        return todo.letters

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def states(self) -> list[str]:
        return [str(d.state) for d in self.status.deliveries]


def test_what_was_sent_is_not_sent_again() -> None:
    book = Book()
    assert len(book.round(HELD, SENT)) == 1
    assert book.round(HELD, SENT) == ()
    assert (book.status.sent, book.status.last_sent_at, book.states) == (1, NOON, ["Sent"])


def test_it_is_marked_before_it_is_sent() -> None:
    todo = next_round(WEBHOOK, NOTHING, HELD, NOON)
    [mark] = todo.status.deliveries
    assert (mark.state, mark.attempts, mark.key) == (DeliveryState.SENDING, 1, HELD[0].key)


def test_a_mark_that_nobody_came_back_to_is_sent_again_as_a_repetition() -> None:
    book = Book()
    [first] = book.round(HELD, None)
    [again] = book.round(HELD, SENT)
    assert first.notice.key == again.notice.key
    assert (first.repetition, again.repetition) == (False, True)
    assert book.round(HELD, SENT) == ()


def test_a_failure_is_tried_again_after_a_pause_that_grows() -> None:
    book, pauses = Book(), []
    for _ in range(5):
        assert len(book.round(HELD, REFUSED)) == 1
        due = due_at(book.status)
        assert due is not None and book.round(HELD, SENT) == (), "not before it is due"
        pauses.append((due - book.now).total_seconds())
        book.now = due
    assert pauses == [2, 4, 8, 16, 32]
    assert book.status.waiting == 1
    [letter] = book.round(HELD, SENT)
    assert not letter.repetition, "what was refused at the door did not arrive"
    assert (book.status.waiting, book.states) == (0, ["Sent"])


def test_the_pause_is_shortened_by_chance_and_has_an_end() -> None:
    assert pause_seconds(1, 0.0) == 2 and 1 <= pause_seconds(1, 0.999) < 1.01
    assert pause_seconds(1000, 0.0) == LONGEST_PAUSE_SECONDS


def test_a_sink_that_says_when_to_come_back_is_obeyed_within_bounds() -> None:
    book = Book()
    book.round(HELD, Outcome(False, "busy", retry_after_seconds=90))
    assert due_at(book.status) == NOON + timedelta(seconds=90)
    book = Book()
    book.round(HELD, Outcome(False, "busy", retry_after_seconds=99_999))
    assert due_at(book.status) == NOON + timedelta(seconds=LONGEST_PAUSE_SECONDS)


def test_what_was_not_answered_may_have_arrived() -> None:
    book = Book()
    book.round(HELD, UNANSWERED)
    book.later(10)
    [again] = book.round(HELD, SENT)
    assert again.repetition


def test_it_is_given_up_in_the_end_and_counted_once() -> None:
    book = Book()
    for _ in range(ATTEMPTS):
        assert len(book.round(HELD, REFUSED)) == 1
        book.later(LONGEST_PAUSE_SECONDS)
    assert book.round(HELD, SENT) == () and book.round(HELD, SENT) == ()
    assert (book.states, book.status.given_up, book.status.waiting) == (["GivenUp"], 1, 0)
    assert book.status.deliveries[0].message == "Given up after 30 attempts. The sink can't be reached."


def test_another_spec_makes_what_failed_due_at_once() -> None:
    book = Book()
    book.round(HELD, REFUSED)
    assert len(book.round(HELD, SENT, changed=True)) == 1


def test_a_hold_that_is_over_is_not_told_any_more() -> None:
    book = Book()
    book.round(HELD, REFUSED)
    book.later(10)
    assert book.round((), SENT) == ()
    assert book.status.deliveries[0].message == "It was over before it could be told."


def test_a_pager_hears_the_end_of_what_it_was_told_once() -> None:
    book = Book(PAGER)
    book.round(notices(held(escalated_at=at(1))), SENT)
    [end] = book.round((), SENT)
    assert (end.notice.kind, end.notice.subject) == (NoticeKind.HOLD_ENDED, HELD[0].subject)
    assert book.round((), SENT) == ()


def test_a_pager_hears_no_end_of_what_never_reached_it() -> None:
    book = Book(PAGER)
    book.round(HELD, REFUSED)
    book.later(10)
    assert book.round((), SENT) == () and book.round((), SENT) == ()


def test_a_pager_hears_the_end_of_what_may_have_reached_it() -> None:
    book = Book(PAGER)
    book.round(HELD, UNANSWERED)
    book.later(10)
    [end] = book.round((), SENT)
    assert end.notice.kind is NoticeKind.HOLD_ENDED


def test_nothing_is_concluded_about_a_rollout_that_can_not_be_read() -> None:
    book = Book(PAGER)
    book.round(HELD, SENT)
    for _ in range(3):
        assert book.round((), SENT, unread={"shop/checkout"}) == ()
    assert book.round(HELD, SENT) == ()
    assert [letter.notice.kind for letter in book.round((), SENT)] == [NoticeKind.HOLD_ENDED]
    book = Book()
    book.round(HELD, REFUSED)
    book.later(10)
    assert book.round((), SENT, unread={"shop/checkout"}) == ()
    assert len(book.round(HELD, SENT)) == 1, "it was neither sent nor given up meanwhile"


def test_an_end_that_fails_is_tried_again() -> None:
    book = Book(PAGER)
    book.round(HELD, SENT)
    assert len(book.round((), REFUSED)) == 1
    book.later(10)
    assert len(book.round((), SENT)) == 1


def test_other_sinks_hear_the_end_only_where_they_ask() -> None:
    book = Book()
    book.round(HELD, SENT)
    assert book.round((), SENT) == ()
    asking = NotificationSinkSpec.model_validate(WEBHOOK.wire() | {"notices": ["Held", "HoldEnded"]})
    book = Book(asking)
    book.round(HELD, SENT)
    assert [letter.notice.kind for letter in book.round((), SENT)] == [NoticeKind.HOLD_ENDED]


@pytest.mark.parametrize("spec", [WEBHOOK, PAGER], ids=["webhook", "pager"])
def test_what_is_over_is_kept_to_be_looked_at_but_not_for_ever(spec: NotificationSinkSpec) -> None:
    """And nothing is sent again because its record went."""
    book, letters = Book(spec), 0
    standing = notices(held(), "stands")
    for number in range(3 * KEPT):
        book.later(1)
        letters += len(book.round((*standing, *notices(held(), f"checkout-{number}")), SENT))
    for _ in range(5):
        book.later(1)
        letters += len(book.round(standing, SENT))
    openings = 1 + 3 * KEPT
    assert letters == openings if spec is WEBHOOK else letters == 2 * openings - 1
    kept = [d for d in book.status.deliveries if d.kind is NoticeKind.HELD]
    assert len(kept) == KEPT + 1 and "stands" in {d.name for d in kept}
    assert len(book.status.deliveries) <= 2 * (KEPT + 1)


def test_many_at_once_are_sent_in_several_goes() -> None:
    book = Book()
    many = tuple(n for number in range(25) for n in notices(held(), f"checkout-{number}"))
    goes = [len(book.round(many, SENT)) for _ in range(4)]
    assert goes == [AT_ONCE, AT_ONCE, 25 - 2 * AT_ONCE, 0]
