"""`gatewright server`: the review page. It reads HOLDs and their evidence, and changes nothing in the cluster."""
