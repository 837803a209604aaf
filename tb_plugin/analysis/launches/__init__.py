"""Launches: their phases, what devices wait for them, how full queues are, and sequences of kernels that repeat."""
