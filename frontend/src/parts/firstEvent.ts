// The first event of a trace that a question to the view `find` finds: where another profile leads into its timeline.
import { getView, type Query } from '../api/client'
import type { Range } from '../canvas/timeline/model'
import { whenReady } from '../state/data'
import { payloadByName } from './payloadByName'

export interface FoundEvent extends Range {
  event: number
}

/** However long the trace is still being read; null where there is none. */
export async function firstEvent(asked: Query): Promise<FoundEvent | null> {
  const found = await whenReady(
    () => getView('find', { ...asked, limit: 1 }),
    () => false,
  ).catch(() => null)
  const hit = found && payloadByName(found, 'hits', 'table')?.rows[0]
  if (!hit) return null
  return { event: Number(hit.event), start: Number(hit.start_ns), end: Number(hit.start_ns) + Number(hit.dur_ns) }
}
