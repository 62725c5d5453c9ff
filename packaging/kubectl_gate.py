"""The program `kubectl-gate` of the self-contained build."""

import sys

from gatewright_cli.main import kubectl_gate

sys.exit(kubectl_gate())
