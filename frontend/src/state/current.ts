// Facts about the open view, for the Export menu.
import { useSyncExternalStore } from 'react'

interface Current {
  /** Address of the shown table as CSV, and its title. */
  csv: { url: string; title: string } | null
  window: { start: number; end: number } | null
}

let current: Current = { csv: null, window: null }
const listeners = new Set<() => void>()

export function setCurrent(change: Partial<Current>): void {
  current = { ...current, ...change }
  for (const listener of listeners) listener()
}

export function useCurrent(): Current {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => current,
  )
}
