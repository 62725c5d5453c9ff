"""The certainty that no process of a container outlives the agent, however the agent ends."""

import os
import signal
import uuid

RUN_MARK = "DEVCLUSTER_NODE_RUN"
"""Environment variable that every process of a container inherits: whose it is, in which run of the agent."""


def kill_marked(mark_prefix: str) -> int:
    """SIGKILL every process of ours whose run mark begins with this; returns how many.

    For what an earlier run left behind: grandchildren in sessions of their own get no death signal.
    """
    wanted = f"{RUN_MARK}={mark_prefix}".encode()
    killed = 0
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry.name}/environ", "rb") as file:
                marked = any(word.startswith(wanted) for word in file.read().split(b"\0"))
            if marked:
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
        except OSError:
            continue  # gone meanwhile, or another user's
    return killed


def start_watchdog(directory: str) -> str:
    """Fork a small process that waits for this one's end, however it comes, and kills all that it started.

    Returns the mark of this run, which the environment of every process of a container must carry as
    RUN_MARK; all runs in this folder begin with ``DIRECTORY#``. Call it before anything heavy is imported:
    the watchdog's memory is what the agent had at that moment.
    """
    mark = f"{directory}#{uuid.uuid4()}"
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
            os.close(writer)
            while os.read(reader, 1):
                pass
            kill_marked(mark)
        finally:
            os._exit(0)
    os.close(reader)
    # The writing end stays open until this process is no more; nobody ever writes.
    os.set_inheritable(writer, False)
    return mark
