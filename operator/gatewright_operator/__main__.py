"""`python -m gatewright_operator`."""

import sys

from gatewright_operator.main import main

sys.exit(main())
