import { describe, expect, test } from 'vitest'
import type { Timeline } from '../../api/payloads'
import type { TileColumns, TileKey } from '../../lib/tiles'
import { TimelineModel } from './model'

const HEAD: Timeline = {
  kind: 'timeline',
  start_ns: 0,
  end_ns: 200_000,
  tracks: [
    { id: '0/7/work', title: 'Device 0', subtitle: '', is_device: true, rows: 1, events: 3 },
    { id: '1/2/calls', title: 'Main thread', subtitle: '', is_device: false, rows: 2, events: 3 },
  ],
  groups: [0, 1, 2],
  levels: [
    { cell_ns: 1, tile_ns: 65_536 },
    { cell_ns: 256, tile_ns: 65_536 },
    { cell_ns: 1024, tile_ns: 262_144 },
  ],
  categories: ['unknown', 'operator', 'kernel'],
  kernels: [],
  has_modules: false,
  has_communication: false,
  busy: [],
  busy_is_device: true,
  is_range_trace: false,
  total_events: 6,
}

/** Lane, row, start, duration, event. */
type Row = [number, number, number, number, number]
const ROWS: Row[] = [
  [0, 0, 100, 50, 2],
  [0, 0, 60_000, 10_000, 4],
  [0, 0, 90_000, 10, 5],
  [1, 0, 0, 80_000, 0],
  [1, 1, 50, 100, 1],
  [1, 1, 200, 100, 3],
]

function columns(rows: Row[], counts: number[] = []): TileColumns {
  const pick = (i: number) => rows.map((row) => row[i])
  return {
    lane: Int32Array.from(pick(0)),
    row: Int32Array.from(pick(1)),
    start: Float64Array.from(pick(2)),
    dur: Float64Array.from(pick(3)),
    idle: new Float64Array(rows.length),
    count: Int32Array.from(rows, (_, i) => counts[i] ?? 1),
    event: Int32Array.from(pick(4)),
    category: new Uint8Array(rows.length).fill(1),
    matrix: new Uint8Array(rows.length),
    name: Int32Array.from(rows, (_, i) => i),
    names: rows.map((row) => `event ${row[4]}`),
    module: new Int32Array(rows.length),
    modules: [''],
  }
}

function serve(_: number, tiles: readonly TileKey[]): Promise<TileColumns[]> {
  return Promise.resolve(
    tiles.map(({ level, group, number }) => {
      const length = HEAD.levels[level].tile_ns
      const [start, end] = [number * length, (number + 1) * length]
      return columns(ROWS.filter(([lane, , at, dur]) => lane === group && at < end && at + dur > start))
    }),
  )
}

async function loaded(level: number, fetch = serve): Promise<TimelineModel> {
  let settle = () => {}
  const done = new Promise<void>((resolve) => {
    settle = resolve
  })
  const model: TimelineModel = new TimelineModel(HEAD, fetch, {
    onChange: () => !model.store.busy && settle(),
    onProblem: (error) => error !== null && settle(),
  })
  model.store.want(model.tiles(level, [0, 1], { start: 0, end: 200_000 }))
  await done
  return model
}

describe('levels', () => {
  test('cells are no wider than two pixels', () => {
    const model = new TimelineModel(HEAD, serve, { onChange: () => {}, onProblem: () => {} })
    expect(model.levelFor(1)).toBe(0)
    expect(model.levelFor(127)).toBe(0)
    expect(model.levelFor(128)).toBe(1)
    expect(model.levelFor(511)).toBe(1)
    expect(model.levelFor(512)).toBe(2)
    expect(model.levelFor(1e9)).toBe(2)
  })
})

describe('items', () => {
  test('are found where they stand, with a tolerance, the nearer one first', async () => {
    const model = await loaded(0)
    expect(model.itemAt(0, 0, 0, 120, 5)?.event).toBe(2)
    expect(model.itemAt(0, 0, 0, 154, 5)?.event).toBe(2)
    expect(model.itemAt(0, 0, 0, 155, 5)).toBeNull()
    expect(model.itemAt(0, 1, 1, 190, 60)?.event).toBe(3)
    expect(model.itemAt(0, 1, 0, 79_999, 0)?.name).toBe('event 0')
  })

  test('that reach over tiles are in both', async () => {
    const model = await loaded(0)
    expect(model.itemAt(0, 0, 0, 69_000, 0)?.event).toBe(4)
    const [first, second] = model.pieces(0, 0, { start: 0, end: 100_000 })
    expect([first.goesOn, second.goesOn]).toEqual([false, true])
  })

  test('arrow keys walk along the row, to what lies around and to the first one within', async () => {
    const model = await loaded(0)
    const view = { start: 0, end: 100_000 }
    const at = (lane: number, row: number, time: number) => {
      const item = model.itemAt(0, lane, row, time, 0)
      if (!item) throw new Error('nothing there')
      return { ...item, end: item.start + item.dur }
    }
    const walk = (from: ReturnType<typeof at>, key: string) => model.neighbour(0, view, from, key)?.event
    expect(walk(at(0, 0, 120), 'ArrowRight')).toBe(4)
    expect(walk(at(0, 0, 65_000), 'ArrowRight')).toBe(5)
    expect(walk(at(0, 0, 65_000), 'ArrowLeft')).toBe(2)
    expect(walk(at(0, 0, 120), 'ArrowLeft')).toBeUndefined()
    expect(walk(at(1, 1, 250), 'ArrowUp')).toBe(0)
    expect(walk(at(1, 0, 10), 'ArrowDown')).toBe(1)
    expect(walk(at(1, 1, 60), 'ArrowRight')).toBe(3)
    expect(walk(at(1, 0, 10), 'ArrowUp')).toBeUndefined()
  })
})

describe('tiles', () => {
  test('a coarser one stands in until the finer one is there', async () => {
    const model = await loaded(2)
    const [piece] = model.pieces(0, 0, { start: 0, end: 100 })
    expect(piece.tile).not.toBeNull()
    expect(model.itemAt(0, 0, 0, 120, 5)?.event).toBe(2)
    const fine = await loaded(0)
    expect(fine.pieces(2, 0, { start: 0, end: 100 })[0].tile).toBeNull()
  })

  test('an answer may hold only the first ones; the rest is asked for again', async () => {
    let requests = 0
    const model = await loaded(0, (level, tiles) => {
      requests++
      return serve(level, tiles.slice(0, 1))
    })
    expect(model.tiles(0, [0, 1], { start: 0, end: 200_000 }).every((tile) => model.store.has(tile))).toBe(true)
    expect(requests).toBe(8)
  })

  test('names are counted once', async () => {
    const model = await loaded(0)
    expect(new Set(model.store.names.list).size).toBe(model.store.names.list.length)
  })

  test('a failure is told', async () => {
    let told: unknown = null
    const model = new TimelineModel(HEAD, () => Promise.reject(new Error('gone')), {
      onChange: () => {},
      onProblem: (error) => {
        told = error
      },
    })
    model.store.want(model.tiles(0, [0], { start: 0, end: 1 }))
    await new Promise((resolve) => setTimeout(resolve))
    expect(String(told)).toContain('gone')
    model.store.destroy()
  })
})
