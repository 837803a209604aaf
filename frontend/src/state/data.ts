// Data that follows the URL; the last answer stays until the next.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import {
  type Answer,
  ApiError,
  getCatalog,
  getProfile,
  getView,
  lastCatalog,
  lastView,
  type Query,
} from '../api/client'
import type { Catalog, Problem, Profile, View } from '../api/payloads'
import type { Address } from '../lib/profiles'
import { useActivity } from './activity'
import { useExported } from './current'

const CATALOG_MS = 5000
const LOADING_MS = 700
/** The view that summaries of ranks answer. */
const BY_SUMMARY = 'distributed'

export function problemOf(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem
  return {
    what: 'An internal error occurred on the page.',
    where: error instanceof Error ? (error.stack?.split('\n').slice(0, 3).join(' ') ?? error.message) : String(error),
    do: 'Reload the page. If the error returns, report it with this text.',
  }
}

const isAbort = (error: unknown) => error instanceof DOMException && error.name === 'AbortError'

/** Polls while the trace loads; null if cancelled. */
export async function whenReady<T>(ask: () => Promise<Answer<T>>, givenUp: () => boolean): Promise<T | null> {
  while (!givenUp()) {
    const answer = await ask()
    if (answer.state === 'ready') return givenUp() ? null : answer.data
    await new Promise((done) => setTimeout(done, LOADING_MS))
  }
  return null
}

interface CatalogState {
  catalog: Catalog | null
  /** Set while the server does not answer; the last catalog stays. */
  problem: Problem | null
  refresh: () => void
}

export function useCatalog(): CatalogState {
  const [catalog, setCatalog] = useState(lastCatalog)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [round, setRound] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new round asks at once
  useEffect(() => {
    const abort = new AbortController()
    let timer = 0
    const ask = async () => {
      try {
        const next = await getCatalog(abort.signal)
        setCatalog(next)
        setProblem(null)
        timer = window.setTimeout(ask, next.scanning ? LOADING_MS : CATALOG_MS)
      } catch (error) {
        if (isAbort(error) || abort.signal.aborted) return
        setProblem(problemOf(error))
        timer = window.setTimeout(ask, CATALOG_MS)
      }
    }
    ask()
    return () => {
      abort.abort()
      window.clearTimeout(timer)
    }
  }, [round])
  // TensorBoard's reload button.
  const refresh = useCallback(() => setRound((n) => n + 1), [])
  useActivity(catalog === null && problem === null)
  return { catalog, problem, refresh }
}

interface ProfileState {
  profile: Profile | null
  problem: Problem | null
  reload: () => void
}

/** `version` changes reload the profile. If a rank summary answers `view`, the trace is not read. */
export function useProfile(address: Address | null, version: string, part = '', capture = '', view = ''): ProfileState {
  const [state, setState] = useState<{ key: string; profile: Profile | null; problem: Problem | null }>({
    key: '',
    profile: null,
    problem: null,
  })
  const [round, setRound] = useState(0)
  // A failed profile is loaded again only on request, and once.
  const again = useRef(false)
  const key = address ? JSON.stringify({ ...address, window: part, capture }) : ''
  const summarised = view === BY_SUMMARY ? view : ''
  // biome-ignore lint/correctness/useExhaustiveDependencies: asks again when the catalog says something else
  useEffect(() => {
    if (key === '') return
    const query: Query = { ...(JSON.parse(key) as Query), view: summarised }
    const abort = new AbortController()
    let timer = 0
    const ask = async () => {
      try {
        const retry = again.current
        again.current = false
        const profile = await getProfile(retry ? { ...query, retry: '1' } : query, abort.signal)
        setState((old) => {
          const isSame = old.key === key && JSON.stringify(old.profile) === JSON.stringify(profile)
          return isSame && !old.problem ? old : { key, profile: isSame ? old.profile : profile, problem: null }
        })
        if (profile.state === 'loading' || profile.state === 'found') timer = window.setTimeout(ask, LOADING_MS)
      } catch (error) {
        if (isAbort(error) || abort.signal.aborted) return
        setState((old) => ({ ...old, key, profile: old.key === key ? old.profile : null, problem: problemOf(error) }))
        timer = window.setTimeout(ask, CATALOG_MS)
      }
    }
    ask()
    return () => {
      abort.abort()
      window.clearTimeout(timer)
    }
  }, [key, version, round, summarised])
  const reload = useCallback(() => {
    again.current = true
    setRound((n) => n + 1)
  }, [])
  const mine = state.key === key
  const settled =
    mine && (state.problem !== null || state.profile?.state === 'ready' || state.profile?.state === 'failed')
  useActivity(key !== '' && !settled)
  return { profile: mine ? state.profile : null, problem: mine ? state.problem : null, reload }
}

export interface Resource<T> {
  data: T | null
  busy: boolean
  problem: Problem | null
  fraction: number | null
}

/**
 * Asks whenever `key` changes; '' asks nothing. A profile that is still loading is asked again. `last` is the answer of
 * an earlier visit: it is shown until the new one is there.
 */
export function useResource<T>(
  key: string,
  load: (signal: AbortSignal) => Promise<Answer<T | null>>,
  keep = true,
  last: () => T | null = () => null,
): Resource<T> {
  const earlier = (): { key: string; data: T | null; problem: Problem | null } => {
    const data = key === '' ? null : last()
    return { key: data ? key : '', data, problem: null }
  }
  const [state, setState] = useState(earlier)
  const [fraction, setFraction] = useState<number | null>(null)
  const latest = useRef({ load, earlier })
  latest.current = { load, earlier }
  useEffect(() => {
    if (key === '') return
    const abort = new AbortController()
    let timer = 0
    setState((old) => {
      const known = latest.current.earlier()
      return old.key === key || !known.data ? old : known
    })
    const ask = async () => {
      try {
        const answer = await latest.current.load(abort.signal)
        if (abort.signal.aborted) return
        setFraction(answer.state === 'ready' ? null : answer.profile.fraction)
        if (answer.state === 'ready') {
          const { data } = answer
          setState((old) => (old.key === key && old.data === data && !old.problem ? old : { key, data, problem: null }))
        } else timer = window.setTimeout(ask, LOADING_MS)
      } catch (error) {
        if (isAbort(error) || abort.signal.aborted) return
        setState((old) => ({ key, data: old.key === key ? old.data : null, problem: problemOf(error) }))
        if (error instanceof ApiError && error.status === 0) timer = window.setTimeout(ask, CATALOG_MS)
      }
    }
    ask()
    return () => {
      abort.abort()
      window.clearTimeout(timer)
    }
  }, [key])
  const mine = state.key === key
  useActivity(key !== '' && !mine)
  return {
    data: mine || keep ? state.data : null,
    busy: key !== '' && !mine,
    problem: mine ? state.problem : null,
    fraction,
  }
}

/** `base` with more parameters: the same object while they are equal. */
export function useQuery(base: Query, more: Query): Query {
  const key = JSON.stringify({ ...base, ...more })
  return useMemo(() => JSON.parse(key) as Query, [key])
}

export function useView(id: string, query: Query, enabled = true): Resource<View> {
  const key = enabled ? JSON.stringify([id, query]) : ''
  const resource = useResource<View>(
    key,
    (signal) => getView(id, query, signal),
    true,
    () => lastView(id, query),
  )
  useExported(enabled ? resource.data : null)
  return resource
}

/** A view about all workers from cache only; null if not cached. */
async function getCachedView(id: string, query: Query, signal: AbortSignal): Promise<Answer<View | null>> {
  const answer = await getView(id, { ...query, known: '1' }, signal)
  return answer.state === 'ready' ? answer : { state: 'ready', data: null }
}

/** The same: null also while that is asked. `round` changes when it may be known. */
export function useCachedView(id: string, query: Query, round: string, enabled: boolean): View | null {
  const key = enabled ? JSON.stringify([id, query, round]) : ''
  return useResource<View>(key, (signal) => getCachedView(id, query, signal), false).data
}

/** `reads`: unread profiles may be read. */
export function useAllWorkersView(id: string, query: Query, reads: boolean): Resource<View> {
  const get = reads ? getView : getCachedView
  const resource = useResource<View>(
    JSON.stringify([id, query, reads]),
    (signal) => get(id, query, signal),
    true,
    () => (reads ? lastView(id, query) : null),
  )
  useExported(resource.data)
  return resource
}
