"""Questions and their numbers. One file (or folder) = one view; ANALYSES is the literal list of them."""

from typing import Any

from tb_plugin.analysis.base import Analysis
from tb_plugin.views.active_memory.view import ActiveMemory
from tb_plugin.views.allocated_in.view import AllocatedIn
from tb_plugin.views.allocation_stacks.view import AllocationStacks
from tb_plugin.views.allocations.view import Allocations
from tb_plugin.views.allocator_events.view import AllocatorEvents
from tb_plugin.views.backward.view import BackwardPass
from tb_plugin.views.categories.view import Categories
from tb_plugin.views.cluster.view import ClusterAnalysis
from tb_plugin.views.collectives.view import Collectives
from tb_plugin.views.compiled.view import CompiledAnalysis
from tb_plugin.views.counters.view import CountersAnalysis
from tb_plugin.views.diff.view import Diff
from tb_plugin.views.distributed.view import Distributed
from tb_plugin.views.events.view import Events
from tb_plugin.views.execution_nodes.view import ExecutionNodes
from tb_plugin.views.find.view import Find
from tb_plugin.views.findings.view import FindingsAnalysis
from tb_plugin.views.flows.view import FlowsAnalysis
from tb_plugin.views.gaps.view import Gaps
from tb_plugin.views.graphs.view import GraphsAnalysis
from tb_plugin.views.growth.view import GrowthAnalysis
from tb_plugin.views.idle.view import IdleTime
from tb_plugin.views.kernels.view import Kernels
from tb_plugin.views.launches.view import Launches
from tb_plugin.views.memory.view import Memory
from tb_plugin.views.memory_flow.view import MemoryFlowAnalysis
from tb_plugin.views.memory_states.view import MemoryStates
from tb_plugin.views.modules.view import Modules
from tb_plugin.views.operators.view import Operators
from tb_plugin.views.overview.view import Overview
from tb_plugin.views.parallelism.view import Parallelism
from tb_plugin.views.phases.view import PhasesAnalysis
from tb_plugin.views.range.view import Range
from tb_plugin.views.ranks_collectives.view import RanksCollectives
from tb_plugin.views.ranks_kernels.view import RanksKernels
from tb_plugin.views.ranks_memory.view import RanksMemory
from tb_plugin.views.segments.view import Segments
from tb_plugin.views.serving.view import Serving
from tb_plugin.views.snapshot_diff.view import SnapshotDiff
from tb_plugin.views.stack_profile.view import StackProfileAnalysis
from tb_plugin.views.stacks.view import Stacks
from tb_plugin.views.stated.view import VendorTables
from tb_plugin.views.timeline.view import TimelineAnalysis

ANALYSES: tuple[Analysis[Any], ...] = (
    Overview(),
    FindingsAnalysis(),
    Serving(),
    TimelineAnalysis(),
    Operators(),
    Kernels(),
    Modules(),
    GraphsAnalysis(),
    CompiledAnalysis(),
    BackwardPass(),
    Stacks(),
    StackProfileAnalysis(),
    PhasesAnalysis(),
    Parallelism(),
    Launches(),
    IdleTime(),
    Memory(),
    Categories(),
    MemoryFlowAnalysis(),
    Allocations(),
    Segments(),
    GrowthAnalysis(),
    AllocationStacks(),
    VendorTables(),
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
