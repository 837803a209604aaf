// Tiles of the timeline without events: which ones a page asks for, and when, depends on the speed of the machine.
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

const NO_TILE = 255

/** As many empty tiles; the one row that a table of Arrow needs is in none of them. */
export function emptyTiles(count: number): Uint8Array<ArrayBuffer> {
  const ints = () => columnFromArray(Int32Array.of(0), int32())
  const floats = () => columnFromArray(Float64Array.of(0), float64())
  const bytes = (value = 0) => columnFromArray(Uint8Array.of(value), uint8())
  const texts = () => columnFromArray([''], dictionary(utf8(), int32()))
  const plain = tableFromColumns({
    tile: bytes(NO_TILE),
    lane: ints(),
    row: ints(),
    start: floats(),
    dur: floats(),
    idle: floats(),
    count: ints(),
    event: ints(),
    category: bytes(),
    matrix: bytes(),
    name: texts(),
    module: texts(),
  })
  const schema = { ...plain.schema, metadata: new Map([['tiles', String(count)]]) }
  return tableToIPC(new Table(schema, plain.children), { format: 'stream' })?.slice() as Uint8Array<ArrayBuffer>
}
