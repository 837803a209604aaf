// Companion profiles of the open one.
import { useEffect, useMemo, useState } from 'react'
import { getProfile } from '../api/client'
import type { Catalog, Profile } from '../api/payloads'
import { companionCandidates, overlapOf } from '../lib/companions'
import type { Address } from '../lib/profiles'

export interface Companion {
  address: Address
  /** Null until loaded; only then is the overlap known. */
  profile: Profile | null
  /** How long both were recorded at once, in ns; 0: they were not, or a file does not tell when. */
  overlap_ns: number
}

const AGAIN_MS = 1000

/** Companions recorded together with the open profile, and unloaded candidates. Only `load` is loaded. */
export function useCompanions(catalog: Catalog, profile: Profile, load: string): Companion[] {
  const { run, worker, span, model, clock } = profile
  // The catalog is new every few seconds; only these entries matter.
  const found = useMemo(
    () => JSON.stringify(companionCandidates(catalog, { run, worker, span }, model)),
    [catalog, run, worker, span, model],
  )
  const [known, setKnown] = useState<Record<string, Profile>>({})
  useEffect(() => {
    const abort = new AbortController()
    let timer = 0
    const ask = async () => {
      let again = false
      for (const { state, ...address } of JSON.parse(found) as (Address & { state: string })[]) {
        const key = JSON.stringify(address)
        if (state !== 'ready' && key !== load) continue
        const next = await getProfile({ ...address }, abort.signal).catch(() => null)
        if (abort.signal.aborted) return
        if (next) setKnown((old) => ({ ...old, [key]: next }))
        again ||= next?.state === 'loading' || next?.state === 'found'
      }
      if (again) timer = window.setTimeout(ask, AGAIN_MS)
    }
    ask()
    return () => {
      abort.abort()
      window.clearTimeout(timer)
    }
  }, [found, load])
  return useMemo(
    () =>
      (JSON.parse(found) as (Address & { state: string })[]).flatMap(({ state: _, ...address }): Companion[] => {
        const there = known[JSON.stringify(address)]
        if (there?.state !== 'ready') return [{ address, profile: null, overlap_ns: 0 }]
        const overlap_ns = clock && there.clock ? overlapOf(clock, there.clock) : 0
        return overlap_ns > 0 ? [{ address, profile: there, overlap_ns }] : []
      }),
    [found, known, clock],
  )
}
