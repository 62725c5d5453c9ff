"""The file in which a container leaves its last word, and how that is read.

A process has no `/dev` of its own, so `terminationMessagePath` cannot be mounted for it: the environment says where
the file is. What shall run here and in a real cluster writes to `${DEVCLUSTER_TERMINATION_LOG:-/dev/termination-log}`.
"""

from pathlib import Path

TERMINATION_LOG = "DEVCLUSTER_TERMINATION_LOG"
"""Environment variable of every container: path of the file for the message of this run."""
MAX_MESSAGE_BYTES = 4096
"""As the kubelet: what is longer is cut."""


def message_path(directory: Path, container_id: str) -> Path:
    """The file of one run of one container: a new run begins with an empty one."""
    return directory / "termination" / container_id.rpartition("/")[2]


def take_message(path: Path) -> str | None:
    """What the run wrote, at most 4096 bytes; None when that is nothing. The file is gone afterwards."""
    if not path.is_file():
        # Removed by its own container, or a pipe that would be waited for: it said nothing.
        return None
    written = path.read_bytes()[:MAX_MESSAGE_BYTES]
    path.unlink(missing_ok=True)
    return written.decode(errors="replace") or None
