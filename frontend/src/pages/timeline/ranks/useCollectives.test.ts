import { expect, test, vi } from 'vitest'
import { parseCollectives } from './useCollectives'

// It asks for the window, and nothing is asked for here.
vi.mock('../../../state/data', () => ({}))

test('how late the last one was is known from any other, by how long that waited', () => {
  const row = (worker: string, start_ns: number, lateness_ns: number | null, wait_ns: number | null) => ({
    match: 3, collective: 'all_reduce', last_worker: 'a/9', worker, start_ns, dur_ns: 5, event: null, lateness_ns, wait_ns,
  }) // biome-ignore format: one line a thing
  const [collective] = parseCollectives([row('a/1', 10, -2, 902), row('a/2', 12, 0, 900)])
  expect(collective).toMatchObject({ match: 3, last: 'a%2F9', lateness: 900 })
  expect(collective.calls[0]).toEqual({ rank: 'a%2F1', start: 10, end: 15, event: -1, lateness: -2 })
  expect(parseCollectives([row('a/1', 10, -2, 902), row('a/9', 910, 900, 0)])[0].lateness).toBe(900)
  expect(parseCollectives([row('a/1', 10, null, null)])[0].lateness).toBe(0)
})
