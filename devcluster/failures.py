"""One clear sentence for the ways in which a download or a build fails."""

from pathlib import Path

from devcluster.cache import full_disk_sentence

_FULL_DISK = ("no space left on device", "disk quota exceeded")
_TAMPERED = ("checksum mismatch", "security error", "do not match the hashes", "hash mismatch")
_NETWORK = (
    "dial tcp",
    "tls handshake",
    "i/o timeout",
    "connection reset",
    "connection refused",
    "no such host",
    "unexpected eof",
    "temporary failure in name resolution",
    "not a valid zip file",
    "could not find a version",
    "max retries exceeded",
    "read timed out",
    "404 not found",
    "410 gone",
    "500 internal server error",
    "502 bad gateway",
    "503 service unavailable",
    "stream error",
    "module lookup disabled",
)


def _line_with(needles: tuple[str, ...], output: str) -> str | None:
    for line in output.splitlines():
        if any(needle in line.lower() for needle in needles):
            return line.strip()[:300]
    return None


def sentence_for_failed_download(what: str, output: str, folder: Path) -> str:
    """Says in one sentence why fetching or building ``what`` failed, from the failed command's ``output``.

    ``folder`` is where the command was writing: the full disk is named by it.
    """
    if _line_with(_FULL_DISK, output) is not None:
        return full_disk_sentence(folder)
    if (line := _line_with(_TAMPERED, output)) is not None:
        return (
            f"What was downloaded for {what} is not what the checked-in lock file names ({line}): "
            "nothing of it was used; find out who serves it before you try again."
        )
    if (line := _line_with(_NETWORK, output)) is not None:
        return (
            f"Downloading {what} failed ({line}): "
            "check the network and run the command again; it goes on from there."
        )
    last = next(
        (line.strip()[:300] for line in reversed(output.splitlines()) if line.strip()), "it said nothing"
    )
    return f"Building {what} failed ({last})."
