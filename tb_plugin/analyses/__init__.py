"""Questions and their numbers. One file (or folder) = one view; ANALYSES is the literal list of them."""

from typing import Any

from tb_plugin.analyses.active_memory import ActiveMemory
from tb_plugin.analyses.allocation_stacks import AllocationStacks
from tb_plugin.analyses.allocations import Allocations
from tb_plugin.analyses.allocator_events import AllocatorEvents
from tb_plugin.analyses.backward_pass import BackwardPass
from tb_plugin.analyses.base import Analysis
from tb_plugin.analyses.categories import Categories
from tb_plugin.analyses.cluster import ClusterAnalysis
from tb_plugin.analyses.collectives import Collectives
from tb_plugin.analyses.diff import Diff
from tb_plugin.analyses.distributed import Distributed
from tb_plugin.analyses.events import Events
from tb_plugin.analyses.execution_nodes import ExecutionNodes
from tb_plugin.analyses.findings import FindingsAnalysis
from tb_plugin.analyses.graphs import GraphsAnalysis
from tb_plugin.analyses.growth import GrowthAnalysis
from tb_plugin.analyses.idle_time import IdleTime
from tb_plugin.analyses.kernels import Kernels
from tb_plugin.analyses.launches import Launches
from tb_plugin.analyses.memory import Memory
from tb_plugin.analyses.memory.allocated_in import AllocatedIn
from tb_plugin.analyses.memory.states import MemoryStates
from tb_plugin.analyses.memory_flow import MemoryFlowAnalysis
from tb_plugin.analyses.modules import Modules
from tb_plugin.analyses.operators import Operators
from tb_plugin.analyses.overview import Overview
from tb_plugin.analyses.phases import PhasesAnalysis
from tb_plugin.analyses.range import Range
from tb_plugin.analyses.ranks_collectives import RanksCollectives
from tb_plugin.analyses.ranks_kernels import RanksKernels
from tb_plugin.analyses.ranks_memory import RanksMemory
from tb_plugin.analyses.segments import Segments
from tb_plugin.analyses.snapshot_diff import SnapshotDiff
from tb_plugin.analyses.stack_profile import StackProfileAnalysis
from tb_plugin.analyses.stacks import Stacks
from tb_plugin.analyses.stated import Stated
from tb_plugin.analyses.timeline import TimelineAnalysis
from tb_plugin.analyses.timeline.counters import CountersAnalysis
from tb_plugin.analyses.timeline.find import Find
from tb_plugin.analyses.timeline.flows import FlowsAnalysis
from tb_plugin.analyses.timeline.gaps import Gaps

ANALYSES: tuple[Analysis[Any], ...] = (
    Overview(),
    FindingsAnalysis(),
    TimelineAnalysis(),
    Operators(),
    Kernels(),
    Modules(),
    GraphsAnalysis(),
    BackwardPass(),
    Stacks(),
    StackProfileAnalysis(),
    PhasesAnalysis(),
    Launches(),
    IdleTime(),
    Memory(),
    Categories(),
    MemoryFlowAnalysis(),
    Allocations(),
    Segments(),
    GrowthAnalysis(),
    AllocationStacks(),
    Stated(),
    Distributed(),
    RanksKernels(),
    ClusterAnalysis(),
    RanksMemory(),
    Collectives(),
    RanksCollectives(),
    ExecutionNodes(),
    Diff(),
    SnapshotDiff(),
    Events(),
    ActiveMemory(),
    AllocatorEvents(),
    AllocatedIn(),
    MemoryStates(),
    Range(),
    Find(),
    FlowsAnalysis(),
    CountersAnalysis(),
    Gaps(),
)
