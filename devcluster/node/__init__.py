"""The node made of processes: binds pods, runs their containers locally and reports their status.

Run it with ``python -m devcluster.node --kubeconfig FILE --dir DIR``.
"""

from devcluster.node.logs import log_path

__all__ = ["log_path"]
