"""Limits of programs."""

from __future__ import annotations

from enum import Enum


class Limit(Enum):
    """What limits a program's speed. The values appear in responses."""

    MEMORY = "memory"
    DATA_LOADING = "data loading"
    CPU = "CPU overhead"
    INITIALISATION = "initialisation"
    CAPTURE = "graph capture"
    GPU = "GPU"
    COPIES = "copies"
    COMMUNICATION = "communication"
    PROFILER = "profiler"
    STARTED_LATE = "recording started late"
    TRUNCATED = "file truncated"
    RECORDING = "recording"
    GPU_NOT_RECORDED = "GPU work not recorded"
    CPU_NOT_RECORDED = "CPU work not recorded"
    CPU_ONLY = "CPU only"
    UNKNOWN_KERNELS = "unknown kernels"
    NOTHING = "nothing to fix"
