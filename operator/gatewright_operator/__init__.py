"""The Gatewright operator: observe, plan, apply."""
