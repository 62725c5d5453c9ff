"""Speaks to the process that owns a cluster's parts (see :mod:`devcluster.supervisor`), from any process."""

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from devcluster.errors import DevclusterError
from devcluster.processes import kill_if_same

REPOSITORY = Path(__file__).resolve().parent.parent
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class PartStatus:
    """How one part of a cluster is doing; ``exit_code`` is negative for a signal, and None while it runs."""

    name: str
    pid: int
    running: bool
    exit_code: int | None


class NotRunning(DevclusterError):
    """No development cluster runs in the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"No development cluster runs in {folder}: "
            f"start one with `python -m devcluster up --dir {folder}`."
        )


def is_locked(folder: Path) -> bool:
    """Whether a supervisor lives in ``folder``: it holds a lock, which the kernel drops at its death."""
    try:
        with (folder / "lock").open() as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def read_state(folder: Path) -> dict[str, Any] | None:
    """What the supervisor last wrote to ``state.json``; None when there is none. It may be out of date."""
    try:
        state: dict[str, Any] = json.loads((folder / "state.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return state


def python_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a Python process that runs a module of this repository."""
    path = os.pathsep.join(part for part in (str(REPOSITORY), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(extra or {})}


class Supervision:
    """The supervisor of the cluster in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def spawn(cls, folder: Path) -> Self:
        """Starts a supervisor that is owned by this process: when this process dies, it ends every part."""
        supervision = cls(folder)
        (folder / "logs").mkdir(exist_ok=True)
        with (folder / "logs" / "supervisor.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "devcluster.supervisor",
                    "--dir",
                    str(folder),
                    "--owner",
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=python_environment(),
                start_new_session=True,  # Ctrl-C is for the owner, who then stops it in order
                text=True,
            )
        assert process.stdout is not None
        answer = process.stdout.readline().strip()
        process.stdout.close()
        if answer != "ready":
            process.wait()
            if answer == "locked":
                raise DevclusterError(
                    f"A development cluster already runs in {folder}: stop it with "
                    f"`python -m devcluster down --dir {folder}`, or name another --dir."
                )
            raise DevclusterError(
                f"The supervisor could not start; see {folder / 'logs' / 'supervisor.log'}."
            )
        supervision._process = process
        return supervision

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        env: Mapping[str, str],
        *,
        cwd: Path = REPOSITORY,
        stop_signal: signal.Signals = signal.SIGTERM,
        stop_seconds: float = 5.0,
    ) -> int:
        """Starts a part and returns its pid; its output goes to ``DIR/logs/NAME.log``."""
        request = {
            "op": "start",
            "name": name,
            "argv": [str(word) for word in argv],
            "env": dict(env),
            "cwd": str(cwd),
            "stop_signal": int(stop_signal),
            "stop_seconds": stop_seconds,
        }
        return int(self.ask(request)["pid"])

    def signal(self, name: str, number: signal.Signals) -> int:
        """Sends a signal to a part (and to what it started in its process group); the part's pid."""
        return int(self.ask({"op": "signal", "name": name, "signal": int(number)})["pid"])

    def describe(self, info: Mapping[str, Any]) -> None:
        """Puts ``info`` into ``state.json``, for those who come later."""
        self.ask({"op": "describe", "info": dict(info)})

    def info(self) -> dict[str, Any]:
        """What :meth:`describe` said."""
        answer: dict[str, Any] = self.ask({"op": "status"})["info"]
        return answer

    def status(self) -> dict[str, PartStatus]:
        """Every part that was ever started in this cluster."""
        parts = self.ask({"op": "status"})["parts"]
        return {
            name: PartStatus(name, part["pid"], part["running"], part["exit_code"])
            for name, part in parts.items()
        }

    def wait_for_exit(self, name: str, seconds: float) -> int | None:
        """Waits until a part has ended; its exit code, or None when it still runs after ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            part = self.status()[name]
            if not part.running:
                return part.exit_code
            if time.monotonic() > deadline:
                return None
            time.sleep(0.02)

    def release(self) -> None:
        """From now on the cluster lives without an owner, until :meth:`stop`."""
        self.ask({"op": "release"})
        if self._process is not None:
            # It is nobody's child to wait for any more: Popen would complain about it when it is collected.
            self._process.returncode = 0
            self._process = None

    def stop(self, seconds: float = 30.0) -> None:
        """Ends every part and the supervisor; returns when all are gone."""
        with contextlib.suppress(NotRunning):
            self.ask({"op": "stop"})
        deadline = time.monotonic() + seconds
        while is_locked(self.folder) and time.monotonic() < deadline:
            time.sleep(0.02)
        if is_locked(self.folder):
            self._kill()
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _kill(self) -> None:
        """The last resort: the kernel ends all parts when the supervisor is killed."""
        state = read_state(self.folder)
        if state is not None:
            kill_if_same(state["supervisor"]["pid"], state["supervisor"]["started"])

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """One request, one answer.

        Raises:
            NotRunning: nothing runs in the folder.
            DevclusterError: the supervisor refused; the message is its sentence.
        """
        try:
            # A socket's path may have 108 characters; through the folder's descriptor its length does not
            # matter.
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NotRunning(self.folder) from error
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_ANSWER_SECONDS)
                connection.connect(f"/proc/self/fd/{folder}/control.sock")
                connection.sendall(json.dumps(request).encode() + b"\n")
                with connection.makefile("rb") as stream:
                    line = stream.readline()
        except (FileNotFoundError, ConnectionError) as error:
            raise NotRunning(self.folder) from error
        except TimeoutError as error:
            raise DevclusterError(f"The development cluster in {self.folder} does not answer.") from error
        finally:
            os.close(folder)
        if not line:
            raise NotRunning(self.folder)
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise DevclusterError(answer["error"])
        return answer
