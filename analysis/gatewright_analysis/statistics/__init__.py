"""How counts become evidence: intervals, e-values, sample sizes. The only place that imports scipy and numpy.

Each module is one method of docs/explanation/statistics.md (R1): `wilson` M1, `evalue` M2, `two_arm` M5,
`plan` M10, and `dispersion`, the deflation of section 7.2. Every function is pure; counts are exact integers
until they are deflated.
"""
