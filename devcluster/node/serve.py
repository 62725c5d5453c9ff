"""The agent's process: signals, logging, and the loop that everything runs in."""

import asyncio
import logging
import signal
from pathlib import Path

from devcluster.kubeapi import KubeApi
from devcluster.node.agent import NodeAgent
from devcluster.node.host import NodeSettings


def serve(
    kubeconfig: Path,
    directory: Path,
    mark: str,
    *,
    node_name: str,
    backoff_base_seconds: float,
    backoff_max_seconds: float,
    log_level: str,
) -> None:
    """Serve until SIGTERM or SIGINT; all processes of pods end with it."""
    logging.basicConfig(level=log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    settings = NodeSettings(node_name, directory, backoff_base_seconds, backoff_max_seconds, mark)

    async def agent() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with KubeApi.from_kubeconfig(kubeconfig, user_agent="devcluster-node") as api:
            await NodeAgent(api, settings).run()

    try:
        asyncio.run(agent())
    except asyncio.CancelledError:
        logging.getLogger(__name__).info("stopped")
