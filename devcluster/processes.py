"""What the kernel says about processes (Linux, ``/proc``)."""

import os
import signal
from pathlib import Path


def start_time(pid: int) -> str | None:
    """When process ``pid`` started, in clock ticks since boot; None when there is no such process.

    Pid and start time together name one process for good, while a pid alone may be given to another one.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in parentheses, may hold spaces and parentheses itself: count from the last one.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]


def is_frozen(pid: int) -> bool:
    """Whether SIGSTOP has taken effect on every thread of process ``pid``."""
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def is_running(pid: int, started: str) -> bool:
    """Whether the process that had this pid and start time still runs."""
    return started != "" and start_time(pid) == started


def kill_if_same(pid: int, started: str) -> bool:
    """Sends SIGKILL to ``pid`` only if it still is the process that ``started`` then; says if it did."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The descriptor is opened first: from here on the signal can reach no other process than the one
        # looked at.
        if not is_running(pid, started):
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def children_of(pid: int) -> list[int]:
    """The children of process ``pid``, zombies included.

    Read from every process's own line: the kernel's list of children is not compiled in everywhere.
    """
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.name))
    return found
