// Runs whose workers were all read.
import { useSyncExternalStore } from 'react'
import type { Query } from '../api/client'

/** Values by name, with listeners. */
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

/** The user's answer; after 'stopped' reading does not restart by itself. */
type ReadRequest = 'wanted' | 'stopped'

const read = valueStore<true>()
const wishes = valueStore<ReadRequest>()

const nameOf = ({ run, span, window }: Query, view = '') => JSON.stringify([run ?? '', span ?? '', window ?? '', view])

/** Takes in that an answer about all workers of a run has come. */
export const setRunRead = (run: Query): void => read.set(nameOf(run), true)

export const useRunRead = (run: Query): boolean => read.use(nameOf(run)) ?? false

export const setReadRequest = (run: Query, view: string, wish: ReadRequest): void => wishes.set(nameOf(run, view), wish)

export const useReadRequest = (run: Query, view: string): ReadRequest | undefined => wishes.use(nameOf(run, view))
