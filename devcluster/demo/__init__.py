"""The demo: a real service under real traffic, and four releases of it, each with its own end.

``python -m devcluster.demo`` (or ``make demo``) runs it. The manifests that it applies are those of
``examples/checkout/``.
"""
