"""A local process that does not outlive the one that started it."""

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class ChildProcess:
    """A running process in its own session; ``wait`` gives its exit code as a shell gives it."""

    def __init__(
        self, argv: Sequence[str], environment: Mapping[str, str], folder: Path, log: Path | None
    ) -> None:
        """Start it. Output is appended to ``log``. Raises OSError when the program cannot be run."""
        parent = os.getpid()

        def die_with_parent() -> None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(137)

        with open(log or os.devnull, "ab") as output:
            self._popen = subprocess.Popen(
                list(argv),
                env=dict(environment),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._exited = asyncio.Event()
        # A pidfd instead of asyncio's own subprocesses: those keep a thread for each child.
        self._pidfd = os.pidfd_open(self._popen.pid)
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    @property
    def pid(self) -> int:
        """The process id; also the id of its process group."""
        return self._popen.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._exited.is_set()

    async def wait(self) -> int:
        """The exit code; 128 + the signal's number for a process that a signal ended."""
        await self._exited.wait()
        code = self._popen.returncode
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """SIGTERM to the process itself, as a container runtime sends it to process 1 only."""
        if not self._exited.is_set():
            self._popen.terminate()

    def kill(self) -> None:
        """SIGKILL to the process and everything it started in its group."""
        if not self._exited.is_set():
            _kill_group(self._popen.pid)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        # Before the process is reaped its id can't be anybody else's, so the group is safe to kill:
        # what it started dies with it, as in a container.
        _kill_group(self._popen.pid)
        self._popen.wait()
        self._exited.set()


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
