"""`python -m gatewright_cli` is `kubectl gate`."""

import sys

from gatewright_cli.main import kubectl_gate

if __name__ == "__main__":
    sys.exit(kubectl_gate())
