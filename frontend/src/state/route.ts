// The URL is the state. Inside TensorBoard that is the hash of the page around our frame; alone it is our own.
import { useSyncExternalStore } from 'react'
import { isOtherTab, mergeHash, readHash, type Values } from './hash'

const PROFILE = ['run', 'worker', 'span', 'window', 'steps']
/** Keys that outlive a change of view; all others belong to the view that is open. */
const SHARED = new Set(['view', 'phase', 'pattern', ...PROFILE, ...PROFILE.map((key) => `base_${key}`)])
/** Ways of looking that mean the same in another profile. */
const KEPT = ['group', 'sort', 'desc', 'search', 'measure', 'per', 'node', 'order', 'of', 'weight']
/** The view of the open profile that a URL without a view means; empty before any profile is known. */
let home = ''

export const defaultView = () => home

/** Takes the default view of the profile that is open. */
export function setDefaultView(view: string): void {
  home = view
}

function findHost(): Window {
  try {
    // A parent of another origin throws here (an editor's web view): then the page stands alone.
    if (window.parent !== window && typeof window.parent.location.hash === 'string') return window.parent
  } catch {
    return window
  }
  return window
}

const host = findHost()
export const insideTensorBoard = host !== window

let current: Values = readHash(host.location.hash)
const listeners = new Set<() => void>()
/** What each view had in the URL when it was left. */
const remembered = new Map<string, Values>()

function reread(): void {
  if (isOtherTab(host.location.hash)) return
  const next = readHash(host.location.hash)
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

function write(next: Values, push: boolean): void {
  const cleaned = Object.fromEntries(Object.entries(next).filter(([, value]) => value !== ''))
  if (JSON.stringify(cleaned) === JSON.stringify(current)) return
  current = cleaned
  if (!isOtherTab(host.location.hash)) {
    const hash = mergeHash(host.location.hash, cleaned)
    if (hash !== host.location.hash) {
      if (push) host.history.pushState(host.history.state, '', hash)
      else host.history.replaceState(host.history.state, '', hash)
    }
  }
  for (const listener of listeners) listener()
}

const local = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([key]) => !SHARED.has(key)))
const shared = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([key]) => SHARED.has(key)))

/** What a view had in the URL when it was left; undefined before it was open. */
export const leftAs = (view: string): Values | undefined => remembered.get(view)

/** Changes keys of the URL ('' removes one). `push` makes a step for the Back button. */
export function setRoute(change: Values, push = false): void {
  write({ ...current, ...change }, push)
}

/** Opens a view: with the given state, or as it was left. */
export function openView(view: string, params?: Values): void {
  const from = current.view ?? home
  remembered.set(from, local(current))
  const state = params ?? (view === from ? local(current) : (remembered.get(view) ?? {}))
  write({ ...shared(current), ...state, view }, true)
}

/** Another run, worker, span or window: what was chosen inside the old one means nothing there. */
export function openProfile(change: Values): void {
  remembered.clear()
  const kept: Values = {}
  for (const key of KEPT) if (current[key]) kept[key] = current[key]
  write({ ...shared(current), ...kept, window: '', steps: '', phase: '', ...change }, true)
}

/** Opens a view of another profile. The one that is left comes back with the profiles that it was about. */
export function openElsewhere(profile: Values, view: string, params: Values): void {
  const { view: from, ...left } = current
  const none = Object.fromEntries(PROFILE.map((key) => [key, '']))
  remembered.clear()
  remembered.set(from ?? home, { ...none, ...left })
  write({ ...shared(current), ...none, ...profile, ...params, view }, true)
}

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
