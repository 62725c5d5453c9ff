"""Where the output of a container stands."""

from pathlib import Path


def log_path(directory: Path, namespace: str, pod: str, container: str) -> Path:
    """The file with everything that this container has written so far, earlier runs of it included.

    ``directory`` is the node agent's ``--dir``. Underscores separate the parts: Kubernetes allows none in
    names.
    """
    return directory / "logs" / f"{namespace}_{pod}_{container}.log"
