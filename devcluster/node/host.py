"""What a container needs to know of its node and its pod."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from devcluster.kubeapi import Json


@dataclass(frozen=True)
class NodeSettings:
    """What is the same for all containers of this agent."""

    node_name: str
    directory: Path
    backoff_base_seconds: float
    backoff_max_seconds: float
    run_mark: str


class PodHost(Protocol):
    """What a container needs from its pod."""

    @property
    def pod(self) -> Json:
        """The pod as last seen."""

    @property
    def pod_ip(self) -> str:
        """The address that it reports."""

    def changed(self) -> None:
        """Something that the status shows has changed."""

    def event(self, reason: str, message: str) -> None:
        """Tell people of a trouble, once."""
