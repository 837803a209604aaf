// One view an analysis id. A new view: a file here and a line; without one the fallback draws it.
import type { ComponentType } from 'react'
import { AllocationStacks } from './allocationStacks'
import { Allocations } from './allocations'
import { BackwardPass } from './backward'
import { Categories } from './categories'
import { Cluster } from './cluster'
import { Collectives, RanksCollectives } from './collectives'
import { Diff } from './diff'
import { Distributed } from './distributed'
import { ExecutionNodes } from './executionNodes'
import { Fallback } from './fallback'
import { FindingsView } from './findings'
import { Graphs } from './graphs'
import { Growth } from './growth'
import { Idle } from './idle'
import { Kernels } from './kernels'
import { Launches } from './launches'
import { Memory } from './memory'
import { MemoryFlow } from './memoryFlow'
import { Modules } from './modules'
import { Operators } from './operators'
import { Overview } from './overview'
import { Phases } from './phases'
import { RanksKernels } from './ranksKernels'
import { RanksMemory } from './ranksMemory'
import { Segments } from './segments'
import { SnapshotDiff } from './snapshotDiff'
import { StackProfile } from './stackProfile'
import { Stacks } from './stacks'
import { TimelineView } from './timeline'
import type { ViewProps } from './view'

const VIEWS: Record<string, ComponentType<ViewProps>> = {
  overview: Overview,
  findings: FindingsView,
  timeline: TimelineView,
  operators: Operators,
  kernels: Kernels,
  modules: Modules,
  graphs: Graphs,
  backward: BackwardPass,
  stacks: Stacks,
  stack_profile: StackProfile,
  segments: Segments,
  launches: Launches,
  idle: Idle,
  phases: Phases,
  memory: Memory,
  allocations: Allocations,
  categories: Categories,
  memory_flow: MemoryFlow,
  growth: Growth,
  allocation_stacks: AllocationStacks,
  distributed: Distributed,
  cluster: Cluster,
  ranks_kernels: RanksKernels,
  ranks_memory: RanksMemory,
  collectives: Collectives,
  execution_nodes: ExecutionNodes,
  ranks_collectives: RanksCollectives,
  diff: Diff,
  snapshot_diff: SnapshotDiff,
}

/** An id comes from the address: it may name what every object has. */
export const viewOf = (id: string): ComponentType<ViewProps> => (Object.hasOwn(VIEWS, id) ? VIEWS[id] : Fallback)
