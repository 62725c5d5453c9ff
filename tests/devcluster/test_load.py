"""The load generator: it keeps its rate, tells the truth about what came back, and leaves this machine never."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from devcluster.load import LoadGenerator, LoadRefused
from devcluster.node.environment import REPOSITORY


@asynccontextmanager
async def server(*answers: bytes | None, delay_seconds: float = 0.0) -> AsyncIterator[str]:
    """Answers requests with these bytes in turn; None closes the connection instead."""
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                answer = answers[count % len(answers)]
                count += 1
                await asyncio.sleep(delay_seconds)
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    finally:
        listener.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Version: v1\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-version: v2\r\n\r\n2\r\nok\r\n0\r\n\r\n"
FAILED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


async def test_it_keeps_its_rate_and_counts_by_status_and_version() -> None:
    async with server(OK, CHUNKED, FAILED) as url:
        report = await LoadGenerator(url, rate_per_second=150).run(1.0)
    assert report.sent == 150
    assert 0.9 <= report.seconds <= 3
    assert report.answered == report.sent
    assert report.errors == {}
    assert report.failed == report.statuses["503"]
    assert abs(report.statuses["503"] - report.sent / 3) <= 1
    assert report.versions["v1"].keys() == {"200"}
    assert report.versions["v2"].keys() == {"200"}
    assert report.versions[""].keys() == {"503"}


async def test_a_closed_connection_is_an_error_and_not_tried_again() -> None:
    async with server(OK, None) as url:
        report = await LoadGenerator(url, rate_per_second=100).run(0.5)
    assert report.errors.keys() == {"ConnectionClosed"}
    assert report.answered + sum(report.errors.values()) == report.sent
    assert abs(report.errors["ConnectionClosed"] - report.sent / 2) <= 1


async def test_a_server_that_is_not_there_is_told_and_ends() -> None:
    async with server(OK) as url:
        pass
    report = await LoadGenerator(url, rate_per_second=50).run(0.4)
    assert report.answered == 0
    assert sum(report.errors.values()) == report.sent
    assert "ConnectionRefusedError" in report.errors


async def test_a_slow_server_does_not_slow_the_load_down() -> None:
    async with server(OK, delay_seconds=0.5) as url:
        report = await LoadGenerator(url, rate_per_second=100).run(1.0)
    assert report.sent == 100
    assert report.seconds <= 3
    assert report.answered == report.sent, "it waits for the last answers"
    assert report.latency_ms["p50"] >= 500


async def test_a_server_that_never_answers_is_given_up_after_the_timeout() -> None:
    async with server(OK, delay_seconds=600) as url:
        load = LoadGenerator(url, rate_per_second=20, timeout_seconds=0.5)
        report = await asyncio.wait_for(load.run(0.3), 10)
    assert report.errors == {"TimeoutError": report.sent}


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/", "http://example.org/", "http://10.244.0.1:8080/", "https://127.0.0.1/"]
)
async def test_a_target_that_is_not_plain_http_on_loopback_is_refused(url: str) -> None:
    with pytest.raises(LoadRefused):
        LoadGenerator(url, rate_per_second=1)


async def test_rate_and_duration_have_bounds() -> None:
    with pytest.raises(LoadRefused):
        LoadGenerator("http://127.0.0.1/", rate_per_second=1_000_000)
    with pytest.raises(LoadRefused):
        await LoadGenerator("http://127.0.0.1/", rate_per_second=1).run(1_000_000)


async def test_the_command_writes_a_report_and_its_exit_code_says_whether_a_request_failed(
    tmp_path: Path,
) -> None:
    async def command(url: str, name: str) -> tuple[int | None, dict[str, object]]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "devcluster.load", url, "--rate", "50", "--duration", "0.4"),
            *("--report", str(tmp_path / name)),
            env={"PATH": os.environ["PATH"]},
            cwd=REPOSITORY,
        )
        code = await asyncio.wait_for(process.wait(), 20)
        return code, json.loads((tmp_path / name).read_text())

    async with server(OK) as url:
        code, report = await command(url, "good.json")
        assert (code, report["failed"]) == (0, 0)
    async with server(FAILED) as url:
        code, report = await command(url, "bad.json")
        assert code == 1
        assert report["failed"] == report["sent"]
