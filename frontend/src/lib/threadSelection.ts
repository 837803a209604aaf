// Selected threads of the stacks, to and from the URL.
import { joinIds, splitIds } from './laneOrder'
import type { Row } from './tableRows'

export interface Thread {
  key: string
  /** With the thread key if names repeat. */
  name: string
  ns: number
  idle: boolean
}

/** URL value for all threads, including idle ones. By default, only busy threads are included. */
export const ALL = 'all'

export function threadsOf(rows: readonly Row[]): Thread[] {
  const names = rows.map((row) => String(row.thread))
  return rows.map((row, i) => {
    const key = String(row.thread_key)
    const same = names.filter((name) => name === names[i]).length > 1
    const name = same ? `${names[i]} (${key})` : names[i]
    return { key, name, ns: Number(row.thread_host_ns), idle: row.thread_idle === true }
  })
}

/** Keys of the threads that a choice means: it may hold keys, names and ids, as a person writes them. */
export function selectedThreads(threads: readonly Thread[], text: string): ReadonlySet<string> {
  if (text === '') return new Set(threads.filter(({ idle }) => !idle).map(({ key }) => key))
  const wanted = new Set(splitIds(text))
  if (wanted.has(ALL)) return new Set(threads.map(({ key }) => key))
  const tid = (key: string) => key.slice(key.indexOf(':') + 1)
  return new Set(
    threads.filter(({ key, name }) => [key, name, tid(key)].some((one) => wanted.has(one))).map(({ key }) => key),
  )
}

/** The choice of just these threads; none of them is no choice. */
export function writeThreads(threads: readonly Thread[], chosen: ReadonlySet<string>): string {
  const keys = threads.filter(({ key }) => chosen.has(key)).map(({ key }) => key)
  const works = threads.filter(({ idle }) => !idle)
  if (keys.length === 0 || (keys.length === works.length && works.every(({ key }) => chosen.has(key)))) return ''
  return keys.length === threads.length ? ALL : joinIds(keys)
}

export function threadsText(threads: readonly Thread[], text: string): string {
  const anyIdle = threads.some(({ idle }) => idle)
  if (text === '') return anyIdle ? 'Busy threads' : 'All threads'
  const chosen = selectedThreads(threads, text)
  if (chosen.size === threads.length) return anyIdle ? 'All threads, including idle' : 'All threads'
  const only = threads.find(({ key }) => chosen.has(key))
  return chosen.size === 1 && only ? only.name : `${chosen.size} of ${threads.length} threads`
}
