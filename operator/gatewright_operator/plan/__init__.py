"""The planner: from any snapshot of the world, the next transition towards the goal. Pure: no clock, no I/O, no Kubernetes."""
