"""Torch Trace: where the time and memory of a PyTorch training went."""

__version__ = "0.1.0"
