"""The kubectl plugin `kubectl gate` and the command `gatewright`.

What is imported at start is the standard library and nothing else: `kubectl gate status` answers in less
than 0.4 s, and two thirds of that belong to kubectl itself, which talks to the API server (see `kube`).
"""
