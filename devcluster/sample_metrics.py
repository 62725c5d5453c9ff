"""The sample service's own numbers, in the text format that Prometheus reads."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
"""Upper bounds in seconds: the defaults of Prometheus' Python client."""

MAX_ROUTES = 20
"""Further paths are counted as route ``other``: a client must not be able to make series without end."""

ROOT_ROUTE = "/"
VERDICTS = ("faithful", "unfaithful")


class Metrics:
    """Counts requests by code and route, their duration, and a judge's verdicts; says which model it is.

    ``lazy_series``: a series appears with its first event, as many services have it, instead of at 0 from
    the start.
    """

    def __init__(
        self, *, lazy_series: bool, judged: bool, queue_depth: float, model: dict[str, str] | None = None
    ) -> None:
        self._requests: dict[tuple[str, str], int] = {}
        self._durations: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._verdicts: dict[str, int] = {}
        self._queue_depth = queue_depth
        self._model = dict(model or {})
        if not lazy_series:
            self._requests = {("200", ROOT_ROUTE): 0, ("500", ROOT_ROUTE): 0}
            self._durations = {ROOT_ROUTE: [0] * (len(BUCKETS) + 1)}
            self._sums = {ROOT_ROUTE: 0.0}
            if judged:
                self._verdicts = dict.fromkeys(VERDICTS, 0)

    def request(self, code: int, path: str, seconds: float) -> None:
        """A request was answered."""
        route = path if path in self._sums or len(self._sums) < MAX_ROUTES else "other"
        route = _escaped(route)
        key = str(code), route
        self._requests[key] = self._requests.get(key, 0) + 1
        counts = self._durations.setdefault(route, [0] * (len(BUCKETS) + 1))
        counts[next((index for index, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1
        self._sums[route] = self._sums.get(route, 0.0) + seconds

    def verdict(self, verdict: str) -> None:
        """A judge looked at an answer."""
        self._verdicts[verdict] = self._verdicts.get(verdict, 0) + 1

    def set_model(self, label: str, value: str) -> bool:
        """Another model answers from now on; False when there is no such label."""
        if label not in self._model:
            return False
        self._model[label] = value
        return True

    def text(self) -> bytes:
        """Everything, in the text format."""
        lines = ["# TYPE http_requests_total counter"]
        for (code, route), count in self._requests.items():
            lines.append(f'http_requests_total{{code="{code}",route="{route}"}} {count}')
        lines.append("# TYPE http_request_duration_seconds histogram")
        for route, counts in self._durations.items():
            total = 0
            for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                total += count
                lines.append(f'http_request_duration_seconds_bucket{{le="{bound}",route="{route}"}} {total}')
            lines.append(f'http_request_duration_seconds_sum{{route="{route}"}} {self._sums[route]:.6f}')
            lines.append(f'http_request_duration_seconds_count{{route="{route}"}} {total}')
        if self._verdicts:
            lines.append("# TYPE judge_verdicts_total counter")
            for verdict, count in self._verdicts.items():
                lines.append(f'judge_verdicts_total{{verdict="{verdict}"}} {count}')
        if self._model:
            labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in self._model.items())
            lines += ["# TYPE model_info gauge", f"model_info{{{labels}}} 1"]
        lines += ["# TYPE queue_depth gauge", f"queue_depth {self._queue_depth:g}", ""]
        return "\n".join(lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
