"""Against a real Prometheus that scrapes every second: what is read is what the pods counted, no more and no
less.
"""

import time
from pathlib import Path

import pytest

from gatewright_analysis.evidence.collector import Collector
from gatewright_analysis.evidence.model import Counts, Fault, Window
from gatewright_analysis.evidence.question import Answered, Question
from gatewright_analysis.kinds.contract import Evidence
from gatewright_analysis.reasons import Reason
from tests.fault.prometheus_process import Prometheus, scraped, wait_for
from tests.unit.evidence_world import COUNTS, collector

pytestmark = pytest.mark.cluster

WINDOW = 5.0
LATENCY = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "latency": {"source": "prometheus", "histogram": "http_request_duration_seconds", "le": 1.0},
    }
)
BURN_RATE = Evidence.model_validate(
    {
        "stages": ["Canary"],
        "burnRate": {
            "source": "prometheus",
            "bad": ['http_requests_total{code=~"5.."}'],
            "total": ["http_requests_total"],
            "objective": 0.99,
            "maxBurn": 14.4,
        },
    }
)


def look(own: Collector, prometheus: Prometheus) -> tuple[Window, ...]:
    questions = own.questions(time.time())
    own.absorb({question: prometheus.reader.read(question) for question in questions})
    return own.windows()


def test_counts_are_what_the_pods_counted_through_restarts_new_labels_and_a_hole(tmp_path: Path) -> None:
    with scraped(tmp_path) as (prometheus, canary, stable):
        wait_for("first scrapes of both pods", lambda: prometheus.newest("http_requests_total") is not None)
        wait_for("two scrapes of each pod", lambda: min(canary.scrapes, stable.scrapes) >= 2)
        t0 = time.time() + 0.3

        def begin(evidence: Evidence = COUNTS) -> Collector:
            return collector(evidence, t0=t0, window_seconds=WINDOW, for_seconds=2.0)

        own = begin()
        seen: list[Window] = []

        def live_until(offset: float) -> None:
            """Look again and again until so many seconds after t0, as an operator does."""
            while time.time() < t0 + offset:
                seen.extend(look(own, prometheus))
                time.sleep(0.2)

        def windows_to(count: int) -> None:
            """Look until so many windows are closed."""

            def enough() -> bool:
                seen.extend(look(own, prometheus))
                return len(seen) >= count

            wait_for(f"{count} closed windows", enough, (count - len(seen)) * WINDOW + 20)

        # Everything happens in the middle of a window, two scrapes away from its ends.
        live_until(0.5 * WINDOW)
        canary.serve(ok=30)
        stable.serve(ok=50)
        live_until(1.5 * WINDOW)
        canary.serve(ok=20, failed=7)  # the first of their label
        stable.serve(ok=40, failed=1)
        live_until(2.5 * WINDOW)
        canary.serve(ok=11, failed=3, restarted=True)
        windows_to(4)
        windows = [
            (Counts(30, 0), Counts(50, 0)), (Counts(20, 7), Counts(40, 1)), (Counts(11, 3), Counts(0, 0)),
            (Counts(0, 0), Counts(0, 0)),
        ]  # fmt: skip
        assert [window.fault for window in seen[:4]] == [None] * 4
        assert [(window.canary, window.stable) for window in seen[:4]] == windows
        assert seen[2].resets > 0
        assert sum((tick.canary for tick in own.ticks(time.time())), Counts(0, 0)).bad == 10

        by_bucket = look(begin(LATENCY), prometheus)  # exposed as le="1", stored as le="1.0"
        assert [(window.canary, window.stable) for window in by_bucket[:4]] == windows

        assert look(begin(BURN_RATE), prometheus)[:4] == tuple(seen[:4])

        # Prometheus goes away for more than two scrapes; what the pods count meanwhile can't be placed.
        prometheus.stop()
        stopped_in = int((time.time() - t0) // WINDOW)
        canary.serve(ok=500)
        live_until(time.time() - t0 + 3.5)
        fault = own.fault
        assert isinstance(fault, Fault)
        assert fault.reason is Reason.UNREACHABLE
        prometheus.start()
        wait_for(
            "scrapes after the restart",
            lambda: (prometheus.newest("http_requests_total") or 0) > time.time() - 1,
        )
        back_in = int((time.time() - t0) // WINDOW)
        live_until((back_in + 1.5) * WINDOW)
        canary.serve(ok=5, failed=2)
        windows_to(back_in + 2)

        after = {window.index: window for window in seen}
        holes = {window.index: window.fault.reason for window in seen if window.fault is not None}
        assert set(holes.values()) == {Reason.SCRAPE_GAP}
        assert set(holes) <= set(range(stopped_in, back_in + 1))
        assert after[back_in + 1].canary == Counts(5, 2)
        assert [window.index for window in seen] == list(range(len(seen)))

        # An operator that starts only now asks the same questions and finds the same windows.
        assert look(begin(), prometheus)[: len(seen)] == tuple(seen)


def test_the_real_api_tells_faults_apart(tmp_path: Path) -> None:
    with scraped(tmp_path) as (prometheus, _, _):
        wait_for("a scrape", lambda: prometheus.newest("up") is not None)
        now = time.time()
        reads = {
            query: prometheus.reader.read(Question("prometheus", query, now, now - 60))
            for query in ("up[60s", "up", "1", '"text"', "absent_total[60s]")
        }
        reasons = {query: answer.reason for query, answer in reads.items() if isinstance(answer, Fault)}
        assert reasons == {
            "up[60s": Reason.CLIENT_ERROR,
            "up": Reason.WRONG_RESULT_TYPE,
            "1": Reason.WRONG_RESULT_TYPE,
            '"text"': Reason.WRONG_RESULT_TYPE,
        }
        assert reads["absent_total[60s]"] == Answered(())
