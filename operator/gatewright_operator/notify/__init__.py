"""Tells sinks what stands in status: own tasks and connections, beside everything that decides."""
