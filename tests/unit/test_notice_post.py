"""One POST to a sink: what it answers decides, within bounds, and no sentence holds a secret."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from gatewright_analysis.notify.deliveries import Outcome
from gatewright_analysis.notify.forms import Request
from gatewright_operator.notify.post import post
from tests.unit.http_source import Asked, HttpSource, Reply, reply_json, serving

PATH = "/services/s3cret"


def _post(
    source: HttpSource, *, ca: bytes | None = None, says_ok: bool = False, seconds: float = 5
) -> Outcome:
    request = Request(
        source.address + PATH, {"Content-Type": "application/json", "Authorization": "s3cret"}, b"{}", says_ok
    )
    outcome = asyncio.run(post(request, timeout_seconds=seconds, ca=ca))
    assert "s3cret" not in outcome.message and "127.0.0.1" not in outcome.message
    return outcome


def _always(reply: Reply) -> Callable[[Asked], Reply]:
    return lambda asked: reply


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200, b"ok"), Outcome(True)),
        (Reply(202), Outcome(True)),
        (Reply(404), Outcome(False, "The sink refuses it (HTTP 404).")),
        (Reply(503), Outcome(False, "The sink fails (HTTP 503).")),
        (
            Reply(429, headers={"Retry-After": "7"}),
            Outcome(False, "The sink refuses it (HTTP 429).", retry_after_seconds=7),
        ),
        (
            Reply(302, headers={"Location": "http://127.0.0.1:1/"}),
            Outcome(False, "The sink answers with a redirect (HTTP 302): give the address that it leads to."),
        ),
    ],
)
def test_the_status_decides(reply: Reply, outcome: Outcome) -> None:
    with serving(_always(reply)) as source:
        assert _post(source) == outcome
        [asked] = source.asked
        assert (asked.method, asked.path) == ("POST", PATH)


@pytest.mark.parametrize(
    ("reply", "sent", "words"),
    [
        (reply_json({"ok": True}), True, ""),
        (reply_json({"ok": False, "error": "channel_not_found"}), False, "channel_not_found"),
        (reply_json({"ok": False, "error": "<s3cret>"}), False, "it gives no reason"),
        (Reply(200, b"<html>"), False, "it gives no reason"),
    ],
)
def test_an_answer_that_says_ok_itself_is_read(reply: Reply, sent: bool, words: str) -> None:
    with serving(_always(reply)) as source:
        outcome = _post(source, says_ok=True)
    assert outcome.sent is sent and words in outcome.message


def _drip() -> Iterator[bytes]:
    while True:
        yield b"x" * 1024
        time.sleep(0.001)


def test_a_body_without_end_is_not_read() -> None:
    with serving(_always(Reply(200, _drip()))) as source:
        assert _post(source).sent, "the status has said it"
        assert source.sent < 1_000_000


def test_a_sink_that_does_not_answer_may_have_had_it() -> None:
    def never(asked: Asked) -> Reply:
        source.stop.wait(10)
        return Reply(200)

    with serving(never) as source:
        outcome = _post(source, seconds=0.3)
    assert (outcome.sent, outcome.uncertain) == (False, True)
    assert outcome.message == "The sink gave no answer within 0.3 s."


def test_where_nobody_listens_nothing_arrived() -> None:
    nobody = HttpSource(_always(Reply()), address="http://127.0.0.1:1")
    assert _post(nobody) == Outcome(False, "The sink can't be reached.")


def test_a_certificate_is_trusted_only_by_its_own_ca() -> None:
    with serving(_always(Reply(200)), tls=True) as source:
        assert _post(source, ca=source.ca).sent
        refused = _post(source)
    assert refused == Outcome(False, "The sink's certificate is not trusted: check ca and the address.")
    with pytest.raises(ValueError, match="no PEM certificate"):
        _post(source, ca=b"not a certificate")
