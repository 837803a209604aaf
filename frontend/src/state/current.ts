// Facts about the open view, for the Share menu.
import { useEffect, useRef, useSyncExternalStore } from 'react'
import type { Payload, Table, View } from '../api/payloads'

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

const answers = new Map<object, View | Table>()

/** Notes an answer that the page shows while the component is there. */
export function useExported(answer: View | Table | null): void {
  const key = useRef<object>({})
  useEffect(() => {
    const mine = key.current
    if (answer) answers.set(mine, answer)
    return () => {
      answers.delete(mine)
    }
  }, [answer])
}

/** Payloads of the page's views, then separately requested tables. */
export function pagePayloads(): Payload[] {
  const every = [...answers.values()]
  const tables = every.flatMap((each) => (each.kind === 'table' ? [each] : []))
  const replaced = new Set(tables.map(({ name }) => name))
  const ofViews = every.flatMap((each) => (each.kind === 'view' ? Object.values(each.payloads) : []))
  return [...ofViews.filter((each) => each.kind !== 'table' || !replaced.has(each.name)), ...tables]
}
