// The first event that the view `find` returns.
import { getView, type Query } from '../api/client'
import type { Range } from '../canvas/viewport'
import { whenReady } from '../state/data'
import { payloadByName } from './payloadByName'

interface EventHit extends Range {
  event: number
}

/** Waits while the trace loads; null without a match. */
export async function firstEvent(asked: Query): Promise<EventHit | null> {
  const found = await whenReady(
    () => getView('find', { ...asked, limit: 1 }),
    () => false,
  ).catch(() => null)
  const hit = found && payloadByName(found, 'hits', 'table')?.rows[0]
  if (!hit) return null
  return { event: Number(hit.event), start: Number(hit.start_ns), end: Number(hit.start_ns) + Number(hit.dur_ns) }
}
