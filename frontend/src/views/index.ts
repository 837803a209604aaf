// One view an analysis id. A new view: a file here and a line; without one the fallback draws it.
import type { ComponentType } from 'react'
import { Diff } from './diff'
import { Distributed } from './distributed'
import { Fallback } from './fallback'
import { Kernels } from './kernels'
import { Memory } from './memory'
import { Modules } from './modules'
import { Operators } from './operators'
import { Overview } from './overview'
import { Phases } from './phases'
import { Stacks } from './stacks'
import { TimelineView } from './timeline'
import type { ViewProps } from './view'

const VIEWS: Record<string, ComponentType<ViewProps>> = {
  overview: Overview,
  timeline: TimelineView,
  operators: Operators,
  kernels: Kernels,
  modules: Modules,
  stacks: Stacks,
  phases: Phases,
  memory: Memory,
  distributed: Distributed,
  diff: Diff,
}

export const viewOf = (id: string): ComponentType<ViewProps> => VIEWS[id] ?? Fallback
