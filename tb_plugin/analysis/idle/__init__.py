"""Idle time of devices, split exactly by cause."""
