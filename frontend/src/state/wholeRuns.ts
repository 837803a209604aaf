// Runs of which somebody asked what all their workers did together: their traces are read, and nobody is asked again.
import { useSyncExternalStore } from 'react'
import type { Query } from '../api/client'

const read = new Set<string>()
const listeners = new Set<() => void>()

const nameOf = ({ run, span, window }: Query) => JSON.stringify([run ?? '', span ?? '', window ?? ''])

/** Takes in that an answer about all workers of a run has come. */
export function setWholeRead(run: Query): void {
  const name = nameOf(run)
  if (read.has(name)) return
  read.add(name)
  for (const listener of listeners) listener()
}

export function useWholeRead(run: Query): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => read.has(nameOf(run)),
  )
}
