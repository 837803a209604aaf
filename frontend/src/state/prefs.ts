// Small preferences of one reader, kept in the browser (never needed: storage may be forbidden).
import { useSyncExternalStore } from 'react'
import { DEFAULT_EDITOR } from '../lib/frames'

const KEY = 'torch_trace'

export interface Prefs {
  editor: string
  navFolded: boolean
}

const DEFAULTS: Prefs = { editor: DEFAULT_EDITOR, navFolded: false }

function read(): Prefs {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}')
    if (typeof stored !== 'object' || stored === null) return DEFAULTS
    const { editor, navFolded } = stored as Partial<Record<keyof Prefs, unknown>>
    return {
      editor: typeof editor === 'string' && editor !== '' ? editor : DEFAULTS.editor,
      navFolded: navFolded === true,
    }
  } catch {
    return DEFAULTS
  }
}

let current = read()
const listeners = new Set<() => void>()

export function setPrefs(change: Partial<Prefs>): void {
  current = { ...current, ...change }
  try {
    localStorage.setItem(KEY, JSON.stringify(current))
  } catch {
    // Forbidden: it lasts until the page is closed.
  }
  for (const listener of listeners) listener()
}

export function usePrefs(): Prefs {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => current,
  )
}
