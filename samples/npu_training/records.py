"""What two ranks did: plain records, in nanoseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass, field

from events import MIB

RANKS, SLOW_RANK = 2, 1
EPOCH_NS = 1_763_985_600_000_000_000  # 2025-11-24 12:00 UTC: when the profilers of both ranks were started
SPAN = "20251124120000000"
FIRST_STEP = 12
GRID_NS = 10  # what the counters of the device resolve
NORMAL_MHZ, SLOW_MHZ = 1800, 1200
CUBE_CORES, VECTOR_CORES = 24, 48
COMPUTE, PIPELINE, SUMS, COPIES = 2, 5, 6, 3  # streams
GROUPS = {"pp": "3985310405473756128", "embd": "3985310491373102170"}
"""Groups of both ranks, and the numbers under which the communication library knows them ..."""
LIBRARY_NAMES = {"default_group": "group_name_0", "pp": "group_name_19", "embd": "group_name_20"}
"""... which it makes of these names."""
KIB = 1 << 10
OLDER_BYTES = 600 * MIB  # what PyTorch's allocator had given before the window
SEGMENT_BYTES = 64 * MIB  # what it asks the device for at a time
GRAPH_BYTES, GRAPH_POOL_BYTES = 24 * MIB, 64 * MIB
PROCESS_BYTES = 900 * MIB  # of the process, beside both allocators
BEFORE = {"PTA": (OLDER_BYTES, 10 * SEGMENT_BYTES), "GE": (GRAPH_BYTES, GRAPH_POOL_BYTES)}
"""What the allocators had given and reserved before the window."""
SAMPLED_EVERY_NS = 5_000_000  # the driver's own counters; a real driver is asked every 20 ms
NO_MODEL = 4294967295


@dataclass(frozen=True)
class Config:
    steps: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError("there is at least 1 step")


@dataclass
class HostOp:
    """A call of the framework; the program's own ranges and steps are calls as well."""

    name: str
    thread: int
    start_ns: int
    parent: int  # its place among the calls, -1 = none
    step: int
    shapes: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()
    sequence: int = -1
    forward_thread: int = 0
    end_ns: int = 0


@dataclass
class Queued:
    """A task that the program's thread hands to the thread of the queue."""

    correlation: int
    name: str
    thread: int
    start_ns: int
    end_ns: int
    taken_ns: int
    done_ns: int


@dataclass
class Call:
    """A call of CANN on the thread of the queue."""

    name: str
    level: str
    start_ns: int
    end_ns: int
    connection: int


@dataclass
class Task:
    """Work of a stream."""

    name: str
    type: str
    core: str  # as kernel_details has it; empty: a copy or another task that is no kernel
    task_type: str
    stream: int
    number: int
    connection: int
    op: int
    step: int | None
    start_ns: int
    end_ns: int
    wait_ns: int
    mhz: int
    shapes: tuple[str, str] = ("", "")
    bound: str = ""
    bytes: int = 0


@dataclass
class Collective:
    """An operation of a group on one rank: it begins, waits for the other one, moves bytes, and idles a little."""

    name: str
    type: str
    group: str
    op: int
    step: int
    connection: int
    count: int
    bytes: int
    packet_bytes: int
    start_ns: int
    ready_ns: int = 0  # when both ranks were there
    moved_ns: int = 0
    end_ns: int = 0
    wait_before_ns: int = 0
    last_rank: int = 0


@dataclass
class Block:
    """Memory that an allocator gave. None: before the window, or not within it."""

    name: str
    bytes: int
    allocator: str
    start_ns: int | None
    end_ns: int | None = None


@dataclass
class Frame:
    """A Python function or a module's forward."""

    name: str
    start_ns: int
    end_ns: int
    number: int
    parent: int
    module: int | None = None


@dataclass
class Step:
    number: int
    start_ns: int
    end_ns: int


@dataclass
class Process:
    """Everything that one rank did. Times are nanoseconds since 1970."""

    rank: int
    device: int
    pid: int
    steps: list[Step] = field(default_factory=list)
    ops: list[HostOp] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    queue: list[Queued] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    forward_backward: list[tuple[int, int]] = field(default_factory=list)  # places of two calls
    collections: list[tuple[int, int]] = field(default_factory=list)  # of garbage: start, end
    frequency: list[tuple[int, int]] = field(default_factory=list)  # from when on, MHz
    blocks: list[Block] = field(default_factory=list)
    end_ns: int = 0

    @property
    def main(self) -> int:
        return self.pid

    @property
    def queue_thread(self) -> int:
        return self.pid + 311

    @property
    def backward_thread(self) -> int:
        return self.pid + 540

    @property
    def threads(self) -> tuple[int, int, int]:
        return self.main, self.queue_thread, self.backward_thread

    @property
    def kernels(self) -> list[Task]:
        """Tasks that are kernels, in the order of their begin."""
        return sorted((task for task in self.tasks if task.core), key=lambda task: task.start_ns)
