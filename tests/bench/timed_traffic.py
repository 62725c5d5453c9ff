"""The load generator, asked when a version answered last."""

import time
from typing import Self

from devcluster.load import LoadGenerator
from devcluster.load_client import Client, Outcome
from tests.cluster.traffic import Traffic


class _TimedLoad(LoadGenerator):
    def __init__(self, url: str, *, rate_per_second: float, host: str) -> None:
        super().__init__(url, rate_per_second=rate_per_second, host=host)
        self.last_answer: dict[str, float] = {}

    def _done(self, client: Client, outcome: Outcome) -> None:
        if outcome.error is None:
            self.last_answer[outcome.version] = time.time()
        super()._done(client, outcome)


class TimedTraffic(Traffic):
    """Traffic that remembers when each version's last answer came."""

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def last_answer_of(self, version: str) -> float:
        """In seconds since 1970. Raises KeyError when the version never answered."""
        assert isinstance(self._load, _TimedLoad)
        return self._load.last_answer[version]

    def answers_of(self, version: str) -> int:
        """How many requests the version has answered so far."""
        return sum(self.report().versions.get(version, {}).values())

    async def _begin(self) -> None:
        self._load = _TimedLoad(self._url + "/", rate_per_second=self._rate, host=self._host)
        await self._load.__aenter__()
