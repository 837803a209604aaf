// Data of one rank, loaded when visible.
import { useEffect, useMemo } from 'react'
import type { Query } from '../../../api/client'
import type { Catalog, Problem, Profile } from '../../../api/payloads'
import type { Budget } from '../../../canvas/tileCache'
import type { TimelineModel } from '../../../canvas/timeline/model'
import { type Address, spanOf, spanVersion } from '../../../lib/profiles'
import { useProfile } from '../../../state/data'
import { useTimeline } from '../useTimeline'

export interface Rank {
  profile: Profile | null
  model: TimelineModel | null
  problem: Problem | null
}

export const isSettled = (rank: Rank | undefined) =>
  rank !== undefined && (rank.model !== null || rank.problem !== null)

/** Renders nothing: loads a rank and reports its state until unmounted. */
export function RankSource(props: {
  id: string
  address: Address
  window: string
  catalog: Catalog
  budget: Budget
  onTiles: () => void
  onRank: (id: string, rank: Rank | null) => void
}) {
  const { id, address, window, catalog, budget, onTiles, onRank } = props
  const { run, worker, span } = address
  const { profile, problem } = useProfile(address, spanVersion(spanOf(catalog, address)), window)
  const query = useMemo<Query>(() => ({ run, worker, span, window }), [run, worker, span, window])
  const events = useTimeline(query, onTiles, profile?.state === 'ready', budget)
  const found = profile?.problem ?? problem ?? events.problem
  const { model } = events
  useEffect(() => onRank(id, { profile, model, problem: found }), [id, profile, model, found, onRank])
  useEffect(() => () => onRank(id, null), [id, onRank])
  return null
}
