"""The sample service: its faults are what its environment says, and its numbers are true."""

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from devcluster.load import LoadGenerator, LoadReport
from devcluster.node.environment import REPOSITORY
from tests.devcluster.support import eventually, free_port


class Service:
    """A running sample service."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path: str = "/") -> tuple[int, str, dict[str, str]]:
        """Status, body and headers of one answer; status 0 when it does not listen."""
        try:
            async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return response.status, await response.text(), headers
        except aiohttp.ClientConnectionError:
            return 0, "", {}

    async def listens(self) -> None:
        """Wait until it answers."""

        async def look() -> bool:
            return (await self.get("/healthz"))[0] == 200

        await eventually("the service listens", look)

    async def load(self, requests: int, rate: float = 400) -> LoadReport:
        """Send about this many requests."""
        return await LoadGenerator(self.url, rate_per_second=rate).run(requests / rate)

    async def metrics(self) -> dict[str, float]:
        """Its series and their values."""
        _, text, _ = await self.get("/metrics")
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@asynccontextmanager
async def sample(**settings: str) -> AsyncIterator[Service]:
    """Run the service with these settings."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "devcluster.sample",
        env={"PATH": os.environ["PATH"], "PORT": str(port), **settings},
        cwd=REPOSITORY,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Service(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_it_answers_with_its_version_and_counts_the_requests(tmp_path: object) -> None:
    async with sample(VERSION="v7") as service:
        await service.listens()
        start = await service.metrics()
        assert start['http_requests_total{code="200",route="/"}'] == 0
        assert start['http_requests_total{code="500",route="/"}'] == 0
        status, body, headers = await service.get()
        assert (status, headers["x-version"], json.loads(body)["version"]) == (200, "v7", "v7")
        await service.get("/orders")
        await service.get("/readyz")
        metrics = await service.metrics()
        assert metrics['http_requests_total{code="200",route="/"}'] == 1
        assert metrics['http_requests_total{code="200",route="/orders"}'] == 1
        assert metrics['http_request_duration_seconds_count{route="/"}'] == 1
        assert not [name for name in metrics if "readyz" in name or "healthz" in name or "metrics" in name]


async def test_an_even_error_rate_is_exact() -> None:
    async with sample(ERROR_RATE="0.05", ERROR_PATTERN="even") as service:
        await service.listens()
        report = await service.load(400)
        assert report.errors == {}
        assert report.statuses["500"] == report.sent // 20
        metrics = await service.metrics()
        assert metrics['http_requests_total{code="500",route="/"}'] == report.statuses["500"]
        assert metrics['http_requests_total{code="200",route="/"}'] == report.statuses["200"]


async def test_errors_by_chance_are_the_same_for_the_same_seed() -> None:
    seen = []
    for _ in range(2):
        async with sample(ERROR_RATE="0.3", SEED="11") as service:
            await service.listens()
            seen.append([(await service.get())[0] for _ in range(40)])
    assert seen[0] == seen[1]
    assert {200, 500} == set(seen[0])


async def test_latency_is_what_was_asked_for_and_in_the_histogram() -> None:
    async with sample(
        LATENCY_MS="20", LATENCY_SLOW_RATE="0.1", LATENCY_SLOW_MS="600", ERROR_PATTERN="even"
    ) as service:
        await service.listens()
        report = await service.load(200, rate=200)
        assert 10 <= report.latency_ms["p50"] < 300
        assert report.latency_ms["max"] >= 600
        metrics = await service.metrics()
        slow = 'http_request_duration_seconds_bucket{le="0.5",route="/"}'
        total = metrics['http_request_duration_seconds_count{route="/"}']
        assert total == report.sent
        slow_ones = report.sent // 10
        # A machine that stalls may slow a few more down.
        assert slow_ones <= total - metrics[slow] <= slow_ones + 10, "the slow ones are above half a second"
        assert metrics['http_request_duration_seconds_bucket{le="+Inf",route="/"}'] == total
        assert metrics['http_request_duration_seconds_sum{route="/"}'] >= 0.6 * (report.sent // 10)


async def test_verdicts_of_a_judge_have_the_share_asked_for() -> None:
    async with sample(JUDGE_PASS_RATE="0.9", ERROR_PATTERN="even") as service:
        await service.listens()
        assert (await service.metrics())['judge_verdicts_total{verdict="unfaithful"}'] == 0
        report = await service.load(100)
        metrics = await service.metrics()
        assert metrics['judge_verdicts_total{verdict="faithful"}'] == report.sent * 9 // 10
        assert metrics['judge_verdicts_total{verdict="unfaithful"}'] == report.sent - report.sent * 9 // 10


async def test_without_a_judge_there_are_no_verdicts_and_the_gauge_is_as_set() -> None:
    async with sample(GAUGE="17.5") as service:
        await service.listens()
        await service.get()
        metrics = await service.metrics()
        assert metrics["queue_depth"] == 17.5
        assert not [name for name in metrics if name.startswith("judge")]


async def test_the_model_that_answers_is_told_and_can_be_replaced_behind_its_address() -> None:
    async with sample(MODEL_INFO="model=j-1,version=3") as service:
        await service.listens()
        assert (await service.metrics())['model_info{model="j-1",version="3"}'] == 1
        async with aiohttp.ClientSession() as session:
            answers = [
                (await session.post(f"{service.url}/model-info/{change}")).status
                for change in ("version/4", "nothing/5")
            ]
        assert answers == [200, 404]
        told = {series for series in await service.metrics() if series.startswith("model_info")}
        assert told == {'model_info{model="j-1",version="4"}'}


async def test_lazy_series_appear_with_their_first_event() -> None:
    async with sample(LAZY_SERIES="true") as service:
        await service.listens()
        assert not [name for name in await service.metrics() if name.startswith("http_")]
        await service.get()
        metrics = await service.metrics()
        assert metrics['http_requests_total{code="200",route="/"}'] == 1
        assert 'http_requests_total{code="500",route="/"}' not in metrics


async def test_paths_without_end_make_no_series_without_end() -> None:
    async with sample() as service:
        await service.listens()
        for number in range(40):
            await service.get(f"/p{number}")
        routes = set(re.findall('route="([^"]*)"', "\n".join(await service.metrics())))
        assert "other" in routes
        assert len(routes) <= 21


async def test_a_metrics_label_is_escaped() -> None:
    async with sample() as service:
        await service.listens()
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        writer.write(b'GET /a"b\\c HTTP/1.1\r\nConnection: close\r\n\r\n')
        await reader.read()
        writer.close()
        assert 'http_requests_total{code="200",route="/a\\"b\\\\c"}' in await service.metrics()


async def test_readiness_can_be_set_to_fail_while_it_is_alive() -> None:
    async with sample(READY="false") as service:
        await service.listens()
        assert (await service.get("/readyz"))[0] == 503
        assert (await service.get("/healthz"))[0] == 200


async def test_it_listens_only_after_its_start_delay() -> None:
    async with sample(START_DELAY_SECONDS="0.7") as service:
        began = time.perf_counter()
        await service.listens()
        assert time.perf_counter() - began >= 0.65


async def test_it_crashes_when_told_to() -> None:
    async with sample(CRASH_AFTER_SECONDS="0.3") as service:
        assert await asyncio.wait_for(service.process.wait(), 10) == 1


@pytest.mark.parametrize(
    "setting", [{"ERROR_RATE": "2"}, {"LATENCY_MS": "fast"}, {"READY": "maybe"}, {"MODEL_INFO": "j-1"}]
)
async def test_a_setting_that_makes_no_sense_is_refused_by_name(setting: dict[str, str]) -> None:
    async with sample(**setting) as service:
        _, complaint = await asyncio.wait_for(service.process.communicate(), 10)
        assert service.process.returncode == 2
        assert next(iter(setting)) in complaint.decode()


async def test_after_the_signal_it_serves_on_for_a_while_then_finishes_what_is_open() -> None:
    async with sample(DRAIN_SECONDS="0.5", LATENCY_MS="400") as service:
        await service.listens()
        service.process.send_signal(signal.SIGTERM)

        async def draining() -> bool:
            return (await service.get("/readyz"))[0] == 503

        await eventually("it says that it is not ready", draining)
        late = asyncio.create_task(service.get())
        status, _, headers = await late
        assert status == 200
        assert headers["connection"] == "close"
        assert await asyncio.wait_for(service.process.wait(), 10) == 0
        assert (await service.get("/healthz"))[0] == 0


async def test_a_request_body_of_either_form_is_read_and_the_connection_kept() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    async with sample() as service:
        await service.listens()
        connector = aiohttp.TCPConnector(limit=1)
        async with aiohttp.ClientSession(connector=connector) as session:
            for data in (b"x" * 200_000, chunks(), b""):
                async with session.post(service.url, data=data) as response:
                    assert response.status == 200
        assert (await service.metrics())['http_requests_total{code="200",route="/"}'] == 3
