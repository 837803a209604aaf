"""Idle time of devices: causes that sum to it exactly."""
