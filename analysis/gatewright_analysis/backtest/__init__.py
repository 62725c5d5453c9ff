"""Recorded evidence, judged look by look as an operator would have: reading it, and folding it to a verdict. Pure."""
