// All pages, loaded as one script. A new page adds an import and a line, and an icon in widgets/icons.tsx.
import { type ComponentType, createElement } from 'react'
import type { PageProps } from '../parts/page'
import { Diff } from './compare/diff'
import { SnapshotDiff } from './compare/snapshotDiff'
import { Compiled } from './compile/compiled'
import { Graphs } from './compile/graphs'
import { GenericPage } from './generic/genericPage'
import { Idle } from './idle/idle'
import { Launches } from './idle/launches'
import { AllocationStacks } from './memory/allocationStacks'
import { Allocations } from './memory/allocations/allocations'
import { Categories } from './memory/categories'
import { Growth } from './memory/growth'
import { Memory } from './memory/memory'
import { MemoryFlow } from './memory/memoryFlow'
import { Segments } from './memory/segments/segments'
import { Modules } from './model/modules'
import { Phases } from './model/phases'
import { BackwardPass } from './operators/backward'
import { CriticalPath } from './operators/criticalPath'
import { ExecutionNodes } from './operators/executionNodes'
import { Kernels } from './operators/kernels'
import { Operators } from './operators/operators'
import { Roofline } from './operators/roofline'
import { WhatIf } from './operators/whatIf'
import { Overview } from './overview/overview'
import { QueryPage } from './query/query'
import { Cluster } from './ranks/cluster'
import { Collectives, RanksCollectives } from './ranks/collectives'
import { Distributed } from './ranks/distributed'
import { Parallelism } from './ranks/parallelism'
import { RanksKernels } from './ranks/ranksKernels'
import { RanksMemory } from './ranks/ranksMemory'
import { Serving } from './serving/serving'
import { StackProfile } from './stacks/stackProfile'
import { Stacks } from './stacks/stacks'
import { TimelinePage } from './timeline/timeline'

const PAGES: Record<string, ComponentType<PageProps>> = {
  findings: Overview,
  serving: Serving,
  sql: QueryPage,
  timeline: TimelinePage,
  operators: Operators,
  kernels: Kernels,
  modules: Modules,
  graphs: Graphs,
  compiled: Compiled,
  backward: BackwardPass,
  critical_path: CriticalPath,
  roofline: Roofline,
  whatif: WhatIf,
  stacks: Stacks,
  stack_profile: StackProfile,
  segments: Segments,
  launches: Launches,
  idle: Idle,
  parallelism: Parallelism,
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

/** Ids come from the URL and may name inherited properties. */
export default function Page(props: PageProps) {
  return createElement(Object.hasOwn(PAGES, props.id) ? PAGES[props.id] : GenericPage, props)
}
