"""Idle time of devices by cause, and launches that devices wait for."""
