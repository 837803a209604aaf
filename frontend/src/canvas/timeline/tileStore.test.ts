import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { TileColumns, TileKey } from '../../lib/tiles'
import { Texts, TileStore } from './tileStore'

const keys = (...numbers: number[]): TileKey[] => numbers.map((number) => ({ level: 0, group: 0, number }))

function columns(items = 1): TileColumns {
  const ints = new Int32Array(items)
  const floats = new Float64Array(items)
  const bytes = new Uint8Array(items)
  const common = { lane: ints, row: ints, start: floats, dur: floats, idle: floats, count: ints, event: ints }
  return { ...common, category: bytes, matrix: bytes, name: ints, names: ['a'], module: ints, modules: [''] }
}

interface Request {
  level: number
  numbers: number[]
  signal: AbortSignal
  answer: (tiles: TileColumns[]) => Promise<void>
  fail: (error: unknown) => Promise<void>
}

/** A store whose requests wait until the test answers them. */
function made() {
  const requests: Request[] = []
  const problems: unknown[] = []
  const changed = vi.fn()
  const settle = () => vi.advanceTimersByTimeAsync(0)
  const store = new TileStore(
    (level, tiles, signal) =>
      new Promise((resolve, reject) => {
        requests.push({
          level,
          numbers: tiles.map((tile) => tile.number),
          signal,
          answer: async (found) => {
            resolve(found)
            await settle()
          },
          fail: async (error) => {
            reject(error)
            await settle()
          },
        })
      }),
    () => new Int32Array(2),
    { onChange: changed, onProblem: (error) => problems.push(error) },
  )
  return { store, requests, problems, changed }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

describe('asking', () => {
  test('two requests at a time; the others follow', async () => {
    const { store, requests } = made()
    store.want(keys(...Array(40).keys()))
    expect(requests.map(({ numbers }) => numbers.length)).toEqual([16, 16])
    await requests[0].answer(requests[0].numbers.map(() => columns()))
    expect(requests.map(({ numbers }) => numbers.length)).toEqual([16, 16, 8])
  })

  test('no tile is asked for twice, whether it is under way, there, or wanted twice', async () => {
    const { store, requests } = made()
    store.want(keys(1, 1))
    store.want(keys(1))
    expect(requests.map(({ numbers }) => numbers)).toEqual([[1]])
    await requests[0].answer([columns()])
    store.want(keys(1))
    expect(requests.length).toBe(1)
  })

  test('a request is of one level', () => {
    const { store, requests } = made()
    store.want([...keys(1), { level: 1, group: 0, number: 0 }, ...keys(2)])
    expect(requests.map(({ level, numbers }) => [level, numbers])).toEqual([
      [0, [1, 2]],
      [1, [0]],
    ])
  })

  test('what an answer leaves out is asked for again', async () => {
    const { store, requests } = made()
    store.want(keys(1, 2))
    await requests[0].answer([columns()])
    expect(store.has(keys(1)[0])).toBe(true)
    expect(requests[1].numbers).toEqual([2])
  })

  test('what is no longer wanted is not asked for', async () => {
    const { store, requests } = made()
    store.want(keys(...Array(40).keys()))
    store.want(keys(99))
    await requests[0].answer(requests[0].numbers.map(() => columns()))
    expect(requests.slice(2).map(({ numbers }) => numbers)).toEqual([[99]])
  })

  test('it is busy until the last answer, and says so after it', async () => {
    const { store, requests, changed } = made()
    const busy: boolean[] = []
    changed.mockImplementation(() => busy.push(store.busy))
    store.want(keys(1, 2, 3))
    expect(requests.map(({ numbers }) => numbers)).toEqual([[1, 2], [3]])
    await requests[0].answer([columns(), columns()])
    await requests[1].answer([columns()])
    expect(busy).toEqual([true, false])
  })
})

describe('a failure', () => {
  test('is told, nothing is asked for a while, then it is tried again and told to be over', async () => {
    const { store, requests, problems } = made()
    store.want(keys(1))
    await requests[0].fail('gone')
    expect(problems).toEqual(['gone'])
    expect(store.busy).toBe(false)
    store.want(keys(1, 2))
    await vi.advanceTimersByTimeAsync(2900)
    expect(requests.length).toBe(1)
    await vi.advanceTimersByTimeAsync(200)
    expect(requests[1].numbers).toEqual([1, 2])
    await requests[1].answer([columns(), columns()])
    expect(problems).toEqual(['gone', null])
  })

  test('of one request is not over because another one is answered', async () => {
    const { store, requests, problems } = made()
    store.want(keys(1, 2, 3))
    await requests[0].fail('gone')
    await requests[1].answer([columns()])
    expect(problems).toEqual(['gone'])
  })

  test('is over when what failed is not wanted any more', async () => {
    const { store, requests, problems } = made()
    store.want(keys(1))
    await requests[0].fail('gone')
    store.want([])
    await vi.advanceTimersByTimeAsync(3100)
    expect(problems).toEqual(['gone', null])
  })

  test('of both requests is one pause', async () => {
    const { store, requests } = made()
    store.want(keys(1, 2, 3))
    await requests[0].fail('gone')
    await vi.advanceTimersByTimeAsync(1000)
    await requests[1].fail('gone')
    await vi.advanceTimersByTimeAsync(2000)
    await requests[2].fail('gone again')
    await requests[3].fail('gone again')
    await vi.advanceTimersByTimeAsync(2900)
    expect(requests.length).toBe(4)
  })

  test('of an answer without tiles is one too: the same question would have no end', async () => {
    const { store, requests, problems } = made()
    store.want(keys(1))
    await requests[0].answer([])
    expect(problems.length).toBe(1)
    expect(requests.length).toBe(1)
  })

  test('after the end is nobody’s', async () => {
    const { store, requests, problems, changed } = made()
    store.want(keys(1))
    store.destroy()
    expect(requests[0].signal.aborted).toBe(true)
    await requests[0].fail('aborted')
    await vi.advanceTimersByTimeAsync(9000)
    expect([problems, changed.mock.calls.length, requests.length]).toEqual([[], 0, 1])
  })
})

test('beyond the room what was not seen for longest goes', async () => {
  const { store, requests } = made()
  const large = 700_000 // of 50 bytes each: two tiles fit into 96 MB, three do not
  store.want(keys(1, 2))
  await requests[0].answer([columns(large), columns(large)])
  store.get(0, 0, 1)
  store.want(keys(3))
  await requests[1].answer([columns(large)])
  expect(keys(1, 2, 3).map((key) => store.has(key))).toEqual([true, false, true])
})

test('a text has one number, whichever tile it comes with', () => {
  const texts = new Texts()
  expect([...texts.number(Int32Array.of(0, 1, 0), ['a', 'b'])]).toEqual([0, 1, 0])
  expect([...texts.number(Int32Array.of(0, 1), ['c', 'a'])]).toEqual([2, 0])
  expect(texts.list).toEqual(['a', 'b', 'c'])
})
