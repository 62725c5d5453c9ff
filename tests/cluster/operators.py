"""The real operator in a test's cluster: one per cluster, started when a test first asks for it.

keeper = OperatorKeeper(cluster)
keeper.ensure()                  # runs, leads, has seen everything; whatever a test did to it before
keeper.kill()                    # SIGKILL, as a node that dies
keeper.ensure()                  # another process, which waits for the dead one's Lease to end
"""

import re
import signal
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from devcluster import Instance
from devcluster.install import Operator, start_operator, wait_until_ready

LEASE_SECONDS = 5.0
"""Short, so that a successor takes over soon; long enough that a busy machine renews in time."""
ARGS = ("--lease-seconds", f"{LEASE_SECONDS:g}")
NAME = "operator"
SECOND = "operator-two"
READY_SECONDS = 120.0


@dataclass(frozen=True)
class Second:
    """Another operator beside the first."""

    operator: Operator
    wait_until_leading: Callable[[], None]


class OperatorKeeper:
    """Starts, ends and replaces the operator of one cluster."""

    def __init__(self, cluster: Instance) -> None:
        self.cluster = cluster
        self._operator: Operator | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process lives (it may be frozen)."""
        part = self.cluster.status().get(NAME)
        return part is not None and part.running

    def start(self) -> Operator:
        """A new process, which may have to wait for the Lease; one that runs is ended in good order."""
        if self.is_running:
            self.cluster.kill_part(NAME, signal.SIGCONT)
        self._operator = start_operator(self.cluster, name=NAME, args=ARGS)
        return self._operator

    def ensure(self) -> Operator:
        """The operator that runs and leads; a new one where a test killed it or ended it."""
        if self._operator is None or not self.is_running:
            self.start()
        assert self._operator is not None
        # A test that failed may have left it frozen.
        self.cluster.kill_part(NAME, signal.SIGCONT)
        wait_until_ready(self.cluster, self._operator, seconds=READY_SECONDS)
        return self._operator

    def kill(self) -> None:
        """SIGKILL: no good-bye, the Lease stays until it ends by itself."""
        self.cluster.kill_part(NAME, signal.SIGKILL)

    def stop(self) -> None:
        """In good order: the Lease is released. Nothing happens when none runs."""
        if self.is_running:
            self.cluster.kill_part(NAME, signal.SIGCONT)
            self.cluster.kill_part(NAME, signal.SIGTERM, wait_seconds=30.0)

    def freeze(self) -> None:
        """SIGSTOP: as a machine that stands still and knows nothing of it."""
        self.cluster.kill_part(NAME, signal.SIGSTOP)

    def wake(self) -> None:
        """SIGCONT."""
        self.cluster.kill_part(NAME, signal.SIGCONT)

    def has_given_up(self) -> bool:
        """Whether it knows that it leads no more: it says so, or has ended itself. AssertionError while it is silent."""
        assert self._operator is not None
        if not self.is_running:
            return True
        try:
            with urllib.request.urlopen(f"{self._operator.url}/metrics", timeout=5) as answer:
                text = answer.read().decode()
        except OSError as error:
            raise AssertionError(f"the operator does not answer: {error}") from error
        found = re.search(r"^gatewright_leading (\S+)$", text, re.MULTILINE)
        return found is not None and float(found[1]) == 0

    @contextmanager
    def second(self) -> Iterator[Second]:
        """One more operator, which waits for the Lease; it is ended with the block."""
        operator = start_operator(self.cluster, name=SECOND, args=ARGS)
        try:
            yield Second(operator, lambda: wait_until_ready(self.cluster, operator, seconds=READY_SECONDS))
        finally:
            self.cluster.kill_part(SECOND, signal.SIGTERM, wait_seconds=30.0)
