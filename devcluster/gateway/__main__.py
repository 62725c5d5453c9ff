"""``python -m devcluster.gateway``: run the gateway until it is told to stop."""

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from devcluster.gateway.controller import GatewayController
from devcluster.gateway.envoy import Envoy, EnvoyFailed
from devcluster.kubeapi import KubeApi


async def serve(kubeconfig: Path, directory: Path, port: int, admin_port: int) -> None:
    """Serve until cancelled; ``DIR/ready`` exists while everything is in force. Raises EnvoyFailed."""
    ready = directory / "ready"
    ready.unlink(missing_ok=True)
    try:
        async with (
            KubeApi.from_kubeconfig(kubeconfig, user_agent="devcluster-gateway") as api,
            Envoy(directory, port, admin_port) as envoy,
            asyncio.TaskGroup() as group,
        ):
            controller = GatewayController(api, envoy, port)
            group.create_task(controller.run())
            await controller.in_force.wait()
            ready.touch()
            logging.getLogger(__name__).info("gateway ready on port %d", port)
    finally:
        ready.unlink(missing_ok=True)


def main() -> int:
    """Parse the options and serve; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.gateway", description="Envoy for HTTPRoutes.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--dir", type=Path, required=True, help="Envoy's files, and `ready` while serving")
    parser.add_argument("--port", type=int, required=True, help="where requests come in, on 127.0.0.1")
    parser.add_argument("--admin-port", type=int, required=True, help="Envoy's interface with its counters")
    parser.add_argument("--log-level", default="INFO")
    options = parser.parse_args()
    logging.basicConfig(level=options.log_level, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        await serve(options.kubeconfig, options.dir.resolve(), options.port, options.admin_port)

    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        return 0
    except (EnvoyFailed, ExceptionGroup) as error:
        _, other = error.split(EnvoyFailed) if isinstance(error, ExceptionGroup) else (None, None)
        if other is not None:
            raise
        print(error if isinstance(error, EnvoyFailed) else _first(error), file=sys.stderr)
        return 1
    return 0


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
