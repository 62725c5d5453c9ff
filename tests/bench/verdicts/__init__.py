"""How good verdicts are, ours beside the peers' rules on the same simulated traffic: `make bench-verdicts`.

Writes docs/explanation/verdict-quality.md and its plot. Everything is seeded: the page is the same on each machine.
"""
