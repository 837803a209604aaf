// Runs of which somebody asked what all their workers did together: they are read, and nobody is asked again.
import { useSyncExternalStore } from 'react'
import type { Query } from '../api/client'

/** What is known of runs by their names, and who wants to know when that changes. */
function valueStore<T>() {
  const values = new Map<string, T>()
  const listeners = new Set<() => void>()
  return {
    set(name: string, value: T) {
      values.set(name, value)
      for (const listener of listeners) listener()
    },
    use: (name: string) =>
      useSyncExternalStore(
        (listener) => {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
        () => values.get(name),
      ),
  }
}

/** What somebody said to reading all: what was stopped is not begun again by itself, however little is left. */
export type ReadRequest = 'wanted' | 'stopped'

const read = valueStore<true>()
const wishes = valueStore<ReadRequest>()

const nameOf = ({ run, span, window }: Query, view = '') => JSON.stringify([run ?? '', span ?? '', window ?? '', view])

/** Takes in that an answer about all workers of a run has come. */
export const setRunRead = (run: Query): void => read.set(nameOf(run), true)

export const useRunRead = (run: Query): boolean => read.use(nameOf(run)) ?? false

/** Takes in whether somebody wants all of a run to be read for a view. */
export const setReadRequest = (run: Query, view: string, wish: ReadRequest): void => wishes.set(nameOf(run, view), wish)

export const useReadRequest = (run: Query, view: string): ReadRequest | undefined => wishes.use(nameOf(run, view))
