// The URL as the page's state: TensorBoard's hash, or our own.
import { useSyncExternalStore } from 'react'
import type { Figure } from '../api/payloads'
import { isOtherTab, joinList, mergeHash, readHash, splitList, type Values } from './tensorboardHash'

const PLACE = ['run', 'worker', 'span', 'window', 'capture']
const PROFILE = [...PLACE, 'steps']
/** Keys that outlive a change of view; all others belong to the view that is open. */
const SHARED = new Set([
  'view',
  'dismissed',
  'phase',
  'pattern',
  'per',
  ...PROFILE,
  ...PROFILE.map((key) => `base_${key}`),
])
/** Ways of looking that mean the same in another profile. */
const KEPT = ['group', 'sort', 'desc', 'search', 'measure', 'order', 'of', 'weight', 'fold', 'colour']
/** User content, which the Back button keeps. */
const NOTED = ['bookmarks']
/** In the state of each of our entries in the history: how many steps back stay in the same view of the same profile. */
const BEHIND = 'torch_trace_behind'
/** The view of the open profile that a URL without a view means; empty before any profile is known. */
let home = ''

/** Value of `per` for sums over the selected steps; absent: means per step. */
export const TOTAL = 'total'

export const defaultView = () => home

/** Takes the default view of the profile that is open. */
export function setDefaultView(view: string): void {
  home = view
}

function findHost(): Window {
  // `torch-trace view` serves the page elsewhere: the address of a notebook around its frame is not ours.
  if (!window.location.pathname.includes('/data/plugin/')) return window
  try {
    // A parent of another origin (an editor's web view) throws: the page runs alone.
    if (window.parent !== window && typeof window.parent.location.hash === 'string') return window.parent
  } catch {
    return window
  }
  return window
}

const host = findHost()

let current: Values = readHash(host.location.hash)
const listeners = new Set<() => void>()
/** URL state of each view when left. */
const remembered = new Map<string, Values>()

export const hostWindow = host

const behind = (): number => {
  const state: unknown = host.history.state
  const count = typeof state === 'object' && state !== null ? (state as Values)[BEHIND] : undefined
  return typeof count === 'number' ? count : -1
}

const stateWith = (count: number): unknown => {
  const state: unknown = host.history.state
  return { ...(typeof state === 'object' ? state : {}), [BEHIND]: count }
}

const samePlace = (one: Values, other: Values) =>
  (one.view ?? home) === (other.view ?? home) && PLACE.every((key) => (one[key] ?? '') === (other[key] ?? ''))

function reread(): void {
  if (isOtherTab(host.location.hash)) return
  let next = readHash(host.location.hash)
  if (behind() >= 0 && samePlace(next, current) && NOTED.some((key) => next[key] !== current[key])) {
    next = cleaned({ ...next, ...Object.fromEntries(NOTED.map((key) => [key, current[key] ?? ''])) })
    host.history.replaceState(host.history.state, '', mergeHash(host.location.hash, next))
  }
  if (JSON.stringify(next) === JSON.stringify(current)) return
  current = next
  for (const listener of listeners) listener()
}
host.addEventListener('popstate', reread)
host.addEventListener('hashchange', reread)
window.addEventListener('pagehide', () => {
  host.removeEventListener('popstate', reread)
  host.removeEventListener('hashchange', reread)
})

const cleaned = (values: Values): Values =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ''))

function write(values: Values, push: boolean): void {
  const next = cleaned(values)
  if (JSON.stringify(next) === JSON.stringify(current)) return
  const before = current
  current = next
  if (!isOtherTab(host.location.hash)) {
    const hash = mergeHash(host.location.hash, next)
    if (hash !== host.location.hash) {
      if (push) {
        const count = Math.max(0, behind())
        host.history.replaceState(stateWith(count), '')
        host.history.pushState(stateWith(samePlace(before, next) ? count + 1 : 0), '', hash)
      } else host.history.replaceState(host.history.state, '', hash)
    }
  }
  for (const listener of listeners) listener()
}

const local = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([key]) => !SHARED.has(key)))
const shared = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([key]) => SHARED.has(key)))

/** The view's URL state when left; undefined if never open. */
export const lastStateOf = (view: string): Values | undefined => remembered.get(view)

/** Changes keys of the URL ('' removes one). `push` makes a step for the Back button. */
export function setRoute(change: Values, push = false): void {
  write({ ...current, ...change }, push)
}

export function stepBack(): void {
  if (behind() > 0) host.history.back()
}

/** Opens a view: with the given state, or as it was left. */
export function openView(view: string, params?: Values): void {
  const from = current.view ?? home
  remembered.set(from, local(current))
  const state = params ?? (view === from ? local(current) : (remembered.get(view) ?? {}))
  write({ ...shared(current), ...state, view }, true)
}

/** Opens another profile or window and resets state tied to the old one. */
export function openProfile(change: Values): void {
  remembered.clear()
  const kept: Values = {}
  for (const key of KEPT) if (current[key]) kept[key] = current[key]
  write({ ...shared(current), ...kept, window: '', capture: '', steps: '', phase: '', ...change }, true)
}

/** Opens a view of another profile. The one that is left comes back with the profiles that it was about. */
export function openViewOfProfile(profile: Values, view: string, params: Values): void {
  const { view: from, ...left } = current
  const none = Object.fromEntries(PROFILE.map((key) => [key, '']))
  remembered.clear()
  remembered.set(from ?? home, { ...none, ...left })
  write({ ...shared(current), ...none, ...profile, ...params, view }, true)
}

/** The way from a worker that a sentence names: its own page, in that run and span. */
export const workerLink =
  ({ run, span }: { run: string; span: string }) =>
  ({ metric, value }: Figure) =>
    metric.key === 'worker' && typeof value === 'string'
      ? () => openViewOfProfile({ run, span, worker: value }, 'overview', {})
      : null

export function readRoute(): Values {
  return current
}

export function useRoute(): Values {
  return useSyncExternalStore((listener) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }, readRoute)
}

/** The address that shows a colleague the same picture. */
export const shareUrl = () => host.location.href.replace(/#.*$/, '') + mergeHash(host.location.hash, current)

/** The value by which a table is filtered in a column, '' without a filter, and its setter. */
export function useFilter(column: string): [string, (value: string, push?: boolean) => void] {
  const where = splitList(useRoute().where)
  const prefix = `${column}:`
  const others = where.filter((item) => !item.startsWith(prefix))
  const chosen = where.find((item) => item.startsWith(prefix))?.slice(prefix.length) ?? ''
  const choose = (value: string, push = true) =>
    setRoute({ where: joinList(value ? [...others, prefix + value] : others), row: '' }, push)
  return [chosen, choose]
}
