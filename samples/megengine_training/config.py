"""What is invented."""

from __future__ import annotations

from dataclasses import dataclass

from events import MIB

FAULTS = ("host_bound", "reshapes", "serial_all_reduce", "wait")
LOCAL_TIME_NS = 1_790_857_026_000_000_000  # when the profiler of the first process was started
APART_NS = 1_734_561  # so much later that of each next process: their times count from their own start
FIRST_PID = 4100
SKEW_NS = 2_300  # the device's clock as MegEngine takes it is so much early: a kernel may begin before its operator
CUPTI_SHORT_NS = 16  # MegEngine ends a kernel so much early, to keep neighbours apart
BATCH, CLASSES = 32, 10
FIRST_ADDRESS, ALIGNED = 0x7F2A_4000_0000, 512
IDLE_BYTES = 900 * MIB


@dataclass(frozen=True)
class Config:
    steps: int = 3
    ranks: int = 1
    blocks: int = 2
    seed: int = 0
    faults: tuple[str, ...] = ()
    cupti: bool = True
    backtrace: bool = True
    scopes: bool = False  # with_scopes: methods of tensors are scopes as well
    wait_params: bool = (
        True  # the end of a wait carries the parameters; a recording of 1.13 on a CPU has the tensor alone
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "faults", tuple(sorted(self.faults)))
        if min(self.steps, self.ranks, self.blocks) < 1:
            raise ValueError("steps, ranks and blocks are at least 1")
        if not set(self.faults) <= set(FAULTS) or len(set(self.faults)) < len(self.faults):
            raise ValueError(f"faults are some of {FAULTS}, each once")
        if "serial_all_reduce" in self.faults and self.ranks < 2:
            raise ValueError("one process has nothing to sum over: serial_all_reduce takes 2 ranks")
