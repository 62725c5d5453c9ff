"""The process that owns every part of one development cluster: ``python -m devcluster.supervisor``.

It exists so that nothing outlives its owner, however the owner dies. It watches the owner by a pidfd, which
becomes readable even when the owner is killed by SIGKILL; and every part is told by the kernel
(``PR_SET_PDEATHSIG``) to die with the supervisor, should that one be killed. It is a child subreaper, so that
what a part leaves behind ends up here and is ended too.

It takes one JSON request per connection on ``DIR/control.sock`` and answers with one JSON line. It has one
thread: the kernel sends the death signal when the *thread* that started a child ends.

Only the standard library is imported, so that it is up within a few hundredths of a second.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.cache import write_atomically
from devcluster.processes import children_of, start_time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Part:
    """One supervised process and how it is to be stopped."""

    process: subprocess.Popen[bytes]
    stop_signal: int
    stop_seconds: float
    started: str
    exit_code: int | None = None


@dataclass
class Supervisor:
    """Starts, watches and ends the parts of the cluster in ``folder``."""

    folder: Path
    owner_fd: int | None
    parts: dict[str, Part] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)
    stopping: bool = False

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carries out one request; a part's own trouble is an answer, never an exception."""
        match request["op"]:
            case "start":
                return self._start(request)
            case "signal":
                return self._signal(request["name"], int(request["signal"]))
            case "describe":
                self.info = request["info"]
                self._write_state()
                return {"ok": True}
            case "status":
                return {"ok": True, "parts": self.status(), "info": self.info, "pid": os.getpid()}
            case "release":
                self.owner_fd = None
                return {"ok": True}
            case "stop":
                self.stopping = True
                return {"ok": True}
            case unknown:
                return {"ok": False, "error": f"The supervisor knows no request {unknown!r}."}

    def status(self) -> dict[str, dict[str, Any]]:
        """Per part: pid, start time (the kernel's clock ticks), whether it runs, and its exit code."""
        return {
            name: {
                "pid": part.process.pid,
                "started": part.started,
                "running": part.exit_code is None,
                "exit_code": part.exit_code,
            }
            for name, part in self.parts.items()
        }

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request["name"]
        current = self.parts.get(name)
        if current is not None and current.exit_code is None:
            return {"ok": False, "error": f"Part {name} is already running as process {current.process.pid}."}
        log = self.folder / "logs" / f"{name}.log"
        log.parent.mkdir(exist_ok=True)
        try:
            with log.open("ab") as output:
                process = subprocess.Popen(
                    request["argv"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=request["env"],
                    cwd=request["cwd"],
                    start_new_session=True,
                    preexec_fn=_die_with(os.getpid()),
                )
        except OSError as error:
            return {"ok": False, "error": f"Part {name} could not be started: {error}."}
        self.parts.pop(
            name, None
        )  # a restarted part goes to the end: parts stop in the reverse order of their starts
        self.parts[name] = Part(
            process=process,
            stop_signal=int(request["stop_signal"]),
            stop_seconds=float(request["stop_seconds"]),
            started=start_time(process.pid) or "",
        )
        self._write_state()
        return {"ok": True, "pid": process.pid}

    def _signal(self, name: str, number: int) -> dict[str, Any]:
        part = self.parts.get(name)
        if part is None:
            return {"ok": False, "error": f"There is no part {name} in this development cluster."}
        if part.exit_code is None:
            _signal_group(part.process.pid, number)
        return {"ok": True, "pid": part.process.pid}

    def reap(self) -> None:
        """Collects every ended child: parts, and orphans that were handed to us."""
        changed = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            for part in self.parts.values():
                if part.process.pid == pid:
                    part.exit_code = os.waitstatus_to_exitcode(status)
                    part.process.returncode = (
                        part.exit_code
                    )  # else Popen would wait for a pid that may be reused
                    changed = True
        if changed and not self.stopping:
            self._write_state()

    def stop_everything(self) -> None:
        """Ends all parts: those that hold something to clean up get their time, the rest is killed.

        Parts with a grace period (pods' node, gateway, operator) go first, while the API server still answers
        them. The data of a development cluster is thrown away, so server and store are not asked to flush it.
        """
        graceful = [part for part in self.parts.values() if part.stop_signal != signal.SIGKILL]
        for part in reversed(graceful):
            if part.exit_code is None:
                _signal_group(part.process.pid, part.stop_signal)
                _signal_group(part.process.pid, signal.SIGCONT)
        deadline = time.monotonic() + max((part.stop_seconds for part in graceful), default=0.0)
        while time.monotonic() < deadline and any(part.exit_code is None for part in graceful):
            time.sleep(0.01)
            self.reap()
        for part in reversed(self.parts.values()):
            if part.exit_code is None:
                _signal_group(part.process.pid, signal.SIGKILL)
        # What is left are orphans of parts, handed to us as their subreaper; ending one can hand us its own
        # children.
        for _ in range(500):
            self.reap()
            left = children_of(os.getpid())
            if not left:
                break
            for pid in left:
                _signal_group(pid, signal.SIGKILL)
                _signal_process(pid, signal.SIGKILL)
            time.sleep(0.01)

    def _write_state(self) -> None:
        state = {
            "supervisor": {"pid": os.getpid(), "started": start_time(os.getpid())},
            "info": self.info,
            "parts": self.status(),
        }
        write_atomically(self.folder / "state.json", json.dumps(state, indent=1), mode=0o600)


def _die_with(parent: int) -> Any:
    def before_exec() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above took effect
            os._exit(1)

    return before_exec


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _signal_process(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _serve_one(listener: socket.socket, supervisor: Supervisor) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(2.0)
        try:
            with connection.makefile("rwb") as stream:
                line = stream.readline()
                if not line:
                    return
                stream.write(json.dumps(supervisor.handle(json.loads(line))).encode() + b"\n")
                stream.flush()
        except (OSError, ValueError, KeyError) as error:
            print(f"A request could not be answered: {error!r}", file=sys.stderr, flush=True)


def _watch_owner(owner: int) -> int | None:
    """A descriptor that becomes readable when ``owner`` dies; None when it is dead already."""
    try:
        descriptor = os.pidfd_open(owner)
    except ProcessLookupError:
        return None
    if os.getppid() != owner:  # its pid may be another process by now
        os.close(descriptor)
        return None
    return descriptor


def main() -> int:
    """Runs until the owner dies, a stop is asked for, or SIGTERM arrives."""
    parser = argparse.ArgumentParser(prog="python -m devcluster.supervisor")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--owner", type=int, required=True)
    arguments = parser.parse_args()
    os.chdir(arguments.dir)
    lock = open("lock", "w")  # noqa: SIM115 - held for life: it says that this cluster runs
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("locked", flush=True)
        return 1
    owner_fd = _watch_owner(arguments.owner)
    if owner_fd is None:
        return 1
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor(arguments.dir, owner_fd)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: setattr(supervisor, "stopping", True))
    # Bound by a relative name: a socket's path may have 108 characters, a test's folder is often longer.
    Path("control.sock").unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind("control.sock")
        os.chmod("control.sock", 0o600)
        listener.listen(16)
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wake_read, selectors.EVENT_READ)
        selector.register(owner_fd, selectors.EVENT_READ)
        supervisor._write_state()
        print("ready", flush=True)
        while not supervisor.stopping:
            for key, _ in selector.select():
                if key.fileobj is listener:
                    _serve_one(listener, supervisor)
                elif key.fileobj == wake_read:
                    os.read(wake_read, 4096)
                elif key.fileobj == owner_fd and supervisor.owner_fd is not None:
                    supervisor.stopping = True
            if supervisor.owner_fd is None and owner_fd in {key.fd for key in selector.get_map().values()}:
                selector.unregister(owner_fd)
            supervisor.reap()
        supervisor.stop_everything()
    Path("control.sock").unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
