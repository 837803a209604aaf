import {
  columnFromArray,
  dictionary,
  float64,
  int32,
  Table,
  tableFromColumns,
  tableToIPC,
  uint8,
  utf8,
} from '@uwdata/flechette'
import { expect, test } from 'vitest'
import { decodeTiles } from './tiles'

/** Bytes as the server sends them: the tiles' number in the metadata, an empty tile has no row. */
function bytesOf(tiles: number, tile: number[]): ArrayBuffer {
  const ints = (values: number[]) => columnFromArray(Int32Array.from(values), int32())
  const floats = (values: number[]) => columnFromArray(Float64Array.from(values), float64())
  const bytes = (values: number[]) => columnFromArray(Uint8Array.from(values), uint8())
  const texts = (values: string[]) => columnFromArray(values, dictionary(utf8(), int32()))
  const row = tile.map((_, i) => i)
  const plain = tableFromColumns({
    tile: bytes(tile),
    lane: ints(row.map((i) => i * 2)),
    row: ints(row),
    start: floats(row.map((i) => 2 ** 50 + i)),
    dur: floats(row.map((i) => i * 10)),
    idle: floats(row.map((i) => i * 5)),
    count: ints(row.map((i) => i + 1)),
    event: ints(row.map((i) => 100 + i)),
    category: bytes(row.map((i) => i + 3)),
    matrix: bytes(row.map((i) => i % 2)),
    name: texts(row.map((i) => (i % 2 ? 'gemm' : 'größer'))),
    module: texts(row.map((i) => (i % 2 ? 'Linear_0' : ''))),
  })
  const schema = { ...plain.schema, metadata: new Map([['tiles', String(tiles)]]) }
  const written = tableToIPC(new Table(schema, plain.children), { format: 'stream' })
  if (!written) throw new Error('nothing was written')
  return written.slice().buffer as ArrayBuffer
}

test('columns are cut at the tiles, also where one is empty', () => {
  const tiles = decodeTiles(bytesOf(4, [0, 0, 2]))
  expect(tiles.map(({ event }) => [...event])).toEqual([[100, 101], [], [102], []])
  const [first, , third] = tiles
  expect([...first.lane, ...third.lane]).toEqual([0, 2, 4])
  expect([...third.row]).toEqual([2])
  expect([...third.start]).toEqual([2 ** 50 + 2])
  expect([...first.dur, ...first.idle]).toEqual([0, 10, 0, 5])
  expect([...first.count, ...first.category, ...first.matrix]).toEqual([1, 2, 3, 4, 0, 1])
  const names = ({ name, names }: typeof first) => [...name].map((i) => names[i])
  expect([...names(first), ...names(third)]).toEqual(['größer', 'gemm', 'größer'])
  expect([...first.module].map((i) => first.modules[i])).toEqual(['', 'Linear_0'])
})
