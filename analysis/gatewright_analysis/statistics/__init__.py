"""How counts and scores become evidence: intervals, e-values, sample sizes. The only place that imports scipy and numpy.

Each module is one method of docs/explanation/statistics.md (R1): `wilson` M1, `evalue` M2, `scores` M3, `clustered` M4,
`two_arm` M5, `exact` M6, `noninferiority` M7, `paired` M8, `spending` M9, `plan` M10, `calibration` M11. `dispersion`
is the deflation of section 7.2, `confidence` what a contract's confidence buys, `errors` what is raised where numbers
allow no conclusion. Every function is pure; counts are exact integers until they are deflated.
"""
