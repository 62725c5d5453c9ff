"""Every way a source can fail, produced for real on loopback: each is a fault with its own reason, and none
shows a body.
"""

import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatewright_analysis.evidence.model import Fault
from gatewright_analysis.evidence.question import Answer, Answered, Expect, Question
from gatewright_analysis.providers.prometheus import PrometheusReader
from gatewright_analysis.providers.transport import Bearer, basic
from gatewright_analysis.reasons import Reason
from tests.unit.http_source import Asked, HttpSource, Reply, reply_json, serving, success

NOW = 1_700_000_000.0
SECRET = "s3cret-in-the-body"
MIB = 2**20
SERIES = {"metric": {"__name__": "m", "pod": "a"}, "values": [[NOW - 1, "1"], [NOW, "2"]]}
SAMPLES = Question("prometheus", 'm{pod="a"}[10000ms]', NOW, NOW - 10)
VALUE = Question("prometheus", "m", NOW, NOW, Expect.VALUE)
VALUES = Question("prometheus", "m", NOW, NOW - 2, Expect.VALUES, lookback=2.0)
NATIVE = Question("prometheus", "m[10000ms]", NOW, NOW - 10, Expect.HISTOGRAMS)


def read(answer: Callable[[Asked], Reply], question: Question = SAMPLES, **options: object) -> Answer:
    with serving(answer) as source:
        return read_from(source, question, **options)


def read_from(source: HttpSource, question: Question = SAMPLES, **options: object) -> Answer:
    reader = PrometheusReader(source.address, **{"timeout_seconds": 5.0, **options})  # type: ignore[arg-type]
    try:
        return reader.read(question)
    finally:
        reader.close()


def megabytes(count: int) -> Iterator[bytes]:
    yield b'{"status":"success","data":{"resultType":"matrix","result":["'
    for _ in range(count):
        yield b"x" * MIB
    yield b'"]}}'


REPLIES: list[tuple[str, Question, Reply, Reason]] = [
    ("a scalar for samples", SAMPLES, success("scalar", [NOW, "1"]), Reason.WRONG_RESULT_TYPE),
    ("a vector for samples", SAMPLES, success("vector", []), Reason.WRONG_RESULT_TYPE),
    ("a string", SAMPLES, success("string", [NOW, SECRET]), Reason.WRONG_RESULT_TYPE),
    ("an unknown type", SAMPLES, success(SECRET, []), Reason.WRONG_RESULT_TYPE),
    ("a matrix for a value", VALUE, success("matrix", [SERIES]), Reason.WRONG_RESULT_TYPE),
    ("the same series twice", SAMPLES, success("matrix", [SERIES, SERIES]), Reason.UNEXPECTED_SERIES),
    (
        "a native histogram",
        SAMPLES,
        success("matrix", [{"metric": {"__name__": "m"}, "histograms": [[NOW, {"count": "1"}]]}]),
        Reason.WRONG_RESULT_TYPE,
    ),
    ("samples that are no pairs", SAMPLES, success("matrix", [SERIES | {"values": [[NOW]]}]), Reason.WRONG_RESULT_TYPE),
    ("a value that is no text", SAMPLES, success("matrix", [SERIES | {"values": [[NOW, 1]]}]), Reason.WRONG_RESULT_TYPE),
    ("a value that is no number", SAMPLES, success("matrix", [SERIES | {"values": [[NOW, SECRET]]}]), Reason.WRONG_RESULT_TYPE),
    ("a time that is no number", SAMPLES, success("matrix", [SERIES | {"values": [["now", "1"]]}]), Reason.WRONG_RESULT_TYPE),
    ("labels that are no text", SAMPLES, success("matrix", [SERIES | {"metric": {"a": 1}}]), Reason.WRONG_RESULT_TYPE),
    ("a result that is no list", SAMPLES, success("matrix", {"a": SECRET}), Reason.WRONG_RESULT_TYPE),
    ("no value", VALUE, success("vector", []), Reason.NO_DATA),
    (
        "several values",
        VALUE,
        success("vector", [{"metric": {"a": name}, "value": [NOW, "1"]} for name in "xy"]),
        Reason.UNEXPECTED_SERIES,
    ),
    ("NaN", VALUE, success("scalar", [NOW, "NaN"]), Reason.NOT_A_NUMBER),
    ("infinity", VALUE, success("vector", [{"metric": {}, "value": [NOW, "-Inf"]}]), Reason.INFINITE),
    ("no values", VALUES, success("vector", []), Reason.NO_DATA),
    ("a matrix for values", VALUES, success("matrix", [SERIES]), Reason.WRONG_RESULT_TYPE),
    (
        "a native histogram for values",
        VALUES,
        success("vector", [{"metric": {}, "histogram": [NOW, {"count": "1", "sum": "1"}]}]),
        Reason.WRONG_RESULT_TYPE,
    ),
    (
        "NaN among values",
        VALUES,
        success("vector", [{"metric": {"a": x}, "value": [NOW, x]} for x in ("1", "NaN")]),
        Reason.NOT_A_NUMBER,
    ),
    (
        "infinity among values",
        VALUES,
        success("vector", [{"metric": {"a": x}, "value": [NOW, x]} for x in ("1", "+Inf")]),
        Reason.INFINITE,
    ),
    (
        "the same value twice",
        VALUES,
        success("vector", [{"metric": {}, "value": [NOW, "1"]}] * 2),
        Reason.UNEXPECTED_SERIES,
    ),
    ("a vector for histograms", NATIVE, success("vector", []), Reason.WRONG_RESULT_TYPE),
    (
        "histograms that are no list",
        NATIVE,
        success("matrix", [{"metric": {}, "histograms": SECRET}]),
        Reason.WRONG_RESULT_TYPE,
    ),
    (
        "a bucket that is none",
        NATIVE,
        success("matrix", [{"metric": {}, "histograms": [[NOW, {"count": "1", "buckets": [SECRET]}]]}]),
        Reason.WRONG_RESULT_TYPE,
    ),
    (
        "an error inside a 200",
        SAMPLES,
        reply_json({"status": "error", "errorType": "execution", "error": SECRET}),
        Reason.QUERY_ERROR,
    ),
    ("warnings", SAMPLES, success("matrix", [SERIES], warnings=[SECRET]), Reason.PARTIAL_RESULT),
    ("a 400", SAMPLES, reply_json({"status": "error", "errorType": "bad_data", "error": SECRET}, 400), Reason.CLIENT_ERROR),
    ("a 404", SAMPLES, Reply(404, f"<html>{SECRET}</html>".encode()), Reason.CLIENT_ERROR),
    ("a 422", SAMPLES, reply_json({"status": "error", "errorType": SECRET}, 422), Reason.CLIENT_ERROR),
    ("a 429", SAMPLES, Reply(429, SECRET.encode()), Reason.CLIENT_ERROR),
    ("a 401", SAMPLES, Reply(401, SECRET.encode(), {"WWW-Authenticate": "Basic"}), Reason.UNAUTHORIZED),
    ("a 403", SAMPLES, Reply(403, SECRET.encode()), Reason.UNAUTHORIZED),
    ("a 500", SAMPLES, Reply(500, SECRET.encode()), Reason.SERVER_ERROR),
    ("a 503", SAMPLES, reply_json({"status": "error", "errorType": "unavailable", "error": SECRET}, 503), Reason.SERVER_ERROR),
    ("a 500 of 50 MB", SAMPLES, Reply(500, megabytes(50)), Reason.SERVER_ERROR),
    ("a 204", SAMPLES, Reply(204), Reason.QUERY_ERROR),
    ("HTML", SAMPLES, Reply(200, f"<html><body>{SECRET}</body></html>".encode()), Reason.NOT_JSON),
    ("nothing", SAMPLES, Reply(200, b""), Reason.NOT_JSON),
    ("half a document", SAMPLES, Reply(200, b'{"status":"success","data":{"resultType"'), Reason.NOT_JSON),
    ("a list", SAMPLES, Reply(200, f'["{SECRET}"]'.encode()), Reason.NOT_JSON),
    ("a document of another kind", SAMPLES, Reply(200, b'{"ok":true}'), Reason.NOT_JSON),
    ("a document without data", SAMPLES, reply_json({"status": "success", "data": None}), Reason.NOT_JSON),
    ("a hundred thousand brackets", SAMPLES, Reply(200, b"[" * 100_000), Reason.NOT_JSON),
    ("bytes that are no text", SAMPLES, Reply(200, b'{"status":"\xff\xfe"}'), Reason.NOT_JSON),
    (
        "a body that is compressed all the same",
        SAMPLES,
        Reply(200, gzip.compress(b" " * 50 * MIB), {"Content-Encoding": "gzip"}),
        Reason.NOT_JSON,
    ),
    ("a redirect", SAMPLES, Reply(302, SECRET.encode(), {"Location": "/login"}), Reason.REDIRECTED),
    ("a redirect without a target", SAMPLES, Reply(308, b""), Reason.REDIRECTED),
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "reply", "reason"), [case[1:] for case in REPLIES], ids=[case[0] for case in REPLIES]
)
def test_each_unusable_answer_has_its_reason_and_its_body_is_shown_to_nobody(
    question: Question, reply: Reply, reason: Reason, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = read(lambda _: reply, question)
    assert isinstance(answer, Fault)
    assert answer.reason is reason
    assert SECRET not in repr(answer) + caplog.text
    assert len(answer.detail) > 20, "a fault is explained by a sentence"


def test_an_empty_matrix_is_no_fault() -> None:
    assert read(lambda _: success("matrix", [])) == Answered(())


@pytest.mark.parametrize("declared", [True, False])
def test_an_answer_of_50_mb_is_not_read(declared: bool) -> None:
    headers = {"Content-Length": str(50 * MIB)} if declared else {}
    with serving(lambda _: Reply(200, megabytes(50), headers)) as source:
        answer = read_from(source)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TOO_LARGE
        assert "8 MiB" in answer.detail
        assert source.sent < 20 * MIB  # the limit, and what the kernel holds between the two


def test_the_rest_of_a_redirects_body_is_not_read_and_its_target_never_asked() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(307, megabytes(50), {"Location": "/elsewhere"})

    with serving(answer) as source:
        found = read_from(source)
        assert isinstance(found, Fault)
        assert found.reason is Reason.REDIRECTED
        assert [asked.path for asked in source.asked] == ["/api/v1/query"]
        assert source.sent < 20 * MIB


def test_a_source_that_says_nothing_times_out_once_and_is_not_asked_again() -> None:
    def silence(asked: Asked) -> Reply:
        source.stop.wait(30)
        return Reply()

    with serving(silence) as source:
        started = time.monotonic()
        answer = read_from(source, timeout_seconds=0.5)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TIMEOUT
        assert time.monotonic() - started < 2.0
        assert len(source.asked) == 1


def test_a_source_that_drips_times_out_although_every_drop_comes_in_time() -> None:
    def drops() -> Iterator[bytes]:
        while not source.stop.wait(0.05):
            yield b" "

    with serving(lambda _: Reply(200, drops())) as source:
        started = time.monotonic()
        answer = read_from(source, timeout_seconds=0.6)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TIMEOUT
        assert time.monotonic() - started < 2.5


def test_a_connection_that_ends_in_the_middle_of_an_answer_is_unreachable() -> None:
    reply = Reply(200, b'{"status":"success"', {"Content-Length": "500", "Connection": "close"})
    answer = read(lambda _: reply)
    assert isinstance(answer, Fault)
    assert answer.reason in (Reason.UNREACHABLE, Reason.NOT_JSON)


def test_a_refused_connection_is_unreachable_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        started = time.monotonic()
        answer = PrometheusReader(address, timeout_seconds=5.0).read(SAMPLES)
    assert isinstance(answer, Fault)
    assert answer.reason is Reason.UNREACHABLE
    assert time.monotonic() - started < 1.0


def test_something_that_is_no_http_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.recv(4096)
            connection.sendall(b"220 mail.example ESMTP\r\n")
            connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        answer = PrometheusReader(f"http://127.0.0.1:{server.getsockname()[1]}", timeout_seconds=2.0).read(
            SAMPLES
        )
        thread.join(5)
    assert isinstance(answer, Fault)
    assert answer.reason is Reason.UNREACHABLE


# TLS


def test_a_certificate_that_nobody_vouches_for_is_a_tls_error() -> None:
    with serving(lambda _: success("matrix", [SERIES]), tls=True) as source:
        answer = read_from(source)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TLS_ERROR
        assert source.asked == []


def test_a_certificate_from_the_given_ca_is_trusted() -> None:
    with serving(lambda _: success("matrix", [SERIES]), tls=True) as source:
        assert isinstance(read_from(source, ca=source.ca), Answered)


def test_a_certificate_from_another_ca_than_the_given_one_is_a_tls_error() -> None:
    with serving(lambda _: Reply(), tls=True) as other, serving(lambda _: Reply(), tls=True) as source:
        answer = read_from(source, ca=other.ca)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TLS_ERROR


def test_a_certificate_for_another_name_is_a_tls_error() -> None:
    with serving(lambda _: Reply(), tls=True, hostname="metrics.example") as source:
        answer = read_from(source, ca=source.ca)
        assert isinstance(answer, Fault)
        assert answer.reason is Reason.TLS_ERROR


def test_http_where_https_was_given_is_a_tls_error() -> None:
    with serving(lambda _: Reply()) as source:
        answer = PrometheusReader(source.address.replace("http:", "https:"), timeout_seconds=2.0).read(
            SAMPLES
        )
        assert isinstance(answer, Fault)
        assert answer.reason in (Reason.TLS_ERROR, Reason.UNREACHABLE)


@pytest.mark.parametrize("ca", [b"", b"not a certificate", b"\xff"])
def test_a_ca_bundle_without_a_certificate_is_refused_with_a_sentence(ca: bytes) -> None:
    with pytest.raises(ValueError, match="no PEM certificate"):
        PrometheusReader("https://127.0.0.1:1", timeout_seconds=1.0, ca=ca)


# What is sent


def test_the_query_goes_in_the_body_with_an_explicit_time_and_a_timeout() -> None:
    with serving(lambda _: success("matrix", [SERIES])) as source:
        read_from(source, timeout_seconds=2.5)
    asked = source.asked[0]
    assert (asked.method, asked.path, asked.query) == ("POST", "/api/v1/query", "")
    assert asked.form == {"query": SAMPLES.query, "time": "1700000000.000", "timeout": "2.500"}


def test_a_path_in_the_address_and_a_slash_at_its_end_are_kept_in_order() -> None:
    with serving(lambda _: success("matrix", [SERIES])) as source:
        source.address += "/prometheus/"
        assert isinstance(read_from(source), Answered)
    assert source.asked[0].path == "/prometheus/api/v1/query"


@pytest.mark.parametrize(
    ("auth", "header"),
    [(Bearer("t0ken\n"), "Bearer t0ken"), (basic("reader", "päss"), "Basic cmVhZGVyOnDDpHNz")],
)
def test_credentials_are_sent_to_the_source(auth: object, header: str) -> None:
    with serving(lambda _: success("matrix", [SERIES])) as source:
        read_from(source, auth=auth)
    assert source.asked[0].headers["Authorization"] == header


def test_nothing_from_the_environment_changes_where_or_how_is_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent")
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(lambda _: success("matrix", [SERIES])) as source:
        assert isinstance(read_from(source), Answered)
    assert "Authorization" not in source.asked[0].headers


def test_a_cookie_that_the_source_sets_is_not_kept() -> None:
    with serving(lambda _: Reply(500, b"", {"Set-Cookie": "session=1; Path=/"})) as source:
        reader = PrometheusReader(source.address, timeout_seconds=2.0)
        reader.read(SAMPLES)
        reader.read(SAMPLES)
        reader.close()
    assert "Cookie" not in source.asked[1].headers


@pytest.mark.parametrize("token", ["", " ", "two words", "line\nbreak", "tökén"])
def test_a_token_that_can_not_stand_in_a_header_is_refused_without_being_shown(token: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII") as refused:
        Bearer(token)
    assert token.strip() == "" or token not in str(refused.value)


def test_a_connection_serves_many_questions_and_survives_a_failure_between() -> None:
    replies = iter(
        [
            success("matrix", [SERIES]),
            Reply(500, b"oops"),
            Reply(200, megabytes(9)),
            success("matrix", [SERIES]),
        ]
    )
    with serving(lambda _: next(replies)) as source:
        reader = PrometheusReader(source.address, timeout_seconds=5.0)
        kinds = [type(reader.read(SAMPLES)) for _ in range(4)]
        reader.close()
    assert kinds == [Answered, Fault, Fault, Answered]
