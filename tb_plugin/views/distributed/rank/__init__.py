"""Data of one rank: calls, time before calls, steps and kernels."""
