"""Stacks without events: what a profiler counted at each place. No times, no steps, and nobody knows in which order."""
