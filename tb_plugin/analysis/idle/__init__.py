"""Idle time of devices: why they have nothing to do, in causes that sum to it exactly."""
