// Runs of which somebody asked what all their workers did together: their traces are read, and nobody is asked again.
import { useSyncExternalStore } from 'react'
import type { Query } from '../api/client'

/** Names of runs, and who wants to know when one is added or taken away. */
function kept() {
  const names = new Set<string>()
  const listeners = new Set<() => void>()
  return {
    set(name: string, isIn: boolean) {
      if (names.has(name) === isIn) return
      if (isIn) names.add(name)
      else names.delete(name)
      for (const listener of listeners) listener()
    },
    use: (name: string) =>
      useSyncExternalStore(
        (listener) => {
          listeners.add(listener)
          return () => listeners.delete(listener)
        },
        () => names.has(name),
      ),
  }
}

const read = kept()
const wanted = kept()

const nameOf = ({ run, span, window }: Query, view = '') => JSON.stringify([run ?? '', span ?? '', window ?? '', view])

/** Takes in that an answer about all workers of a run has come. */
export const setWholeRead = (run: Query): void => read.set(nameOf(run), true)

export const useWholeRead = (run: Query): boolean => read.use(nameOf(run))

/** Takes in whether somebody wants all traces of a run to be read for a view. */
export const setWholeWanted = (run: Query, view: string, isIt: boolean): void => wanted.set(nameOf(run, view), isIt)

export const useWholeWanted = (run: Query, view: string): boolean => wanted.use(nameOf(run, view))
