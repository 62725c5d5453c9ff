"""The program `kubectl_complete-gate` of the self-contained build."""

import sys

from gatewright_cli.complete import main

sys.exit(main())
