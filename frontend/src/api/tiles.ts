// Timeline tiles, from Arrow to typed arrays.
import { type Batch, type Column, tableFromIPC } from '@uwdata/flechette'
import type { TileColumns, TileKey } from '../lib/tiles'
import { type Answer, getBytes, type Query } from './client'

/** The first of the wanted tiles, all of one level. */
export async function getTiles(
  query: Query,
  level: number,
  tiles: readonly TileKey[],
  signal: AbortSignal,
): Promise<Answer<TileColumns[]>> {
  const wanted = tiles.map((tile) => `${tile.group}.${tile.number}`).join(',')
  const answer = await getBytes('tiles', { ...query, level, tiles: wanted }, signal)
  return answer.state === 'loading' ? answer : { state: 'ready', data: decodeTiles(answer.data) }
}

export function decodeTiles(bytes: ArrayBuffer): TileColumns[] {
  const table = tableFromIPC(new Uint8Array(bytes))
  const column = <T>(name: string) => batchOf(table.getChild(name)).values as T
  const texts = (name: string) => {
    const batch = batchOf(table.getChild(name)) as Batch<string> & { dictionary: Column<string> }
    return { numbers: batch.values as Int32Array, texts: batch.dictionary.toArray() as string[] }
  }
  const tile = column<Uint8Array>('tile')
  const [name, module] = [texts('name'), texts('module')]
  const count = Number(table.schema.metadata?.get('tiles') ?? 0)
  const found: TileColumns[] = []
  for (let t = 0, from = 0; t < count; t++) {
    let to = from
    while (to < tile.length && tile[to] === t) to++
    const cut = <A extends { subarray(from: number, to: number): A }>(values: A) => values.subarray(from, to)
    found.push({
      lane: cut(column<Int32Array>('lane')),
      row: cut(column<Int32Array>('row')),
      start: cut(column<Float64Array>('start')),
      dur: cut(column<Float64Array>('dur')),
      idle: cut(column<Float64Array>('idle')),
      count: cut(column<Int32Array>('count')),
      event: cut(column<Int32Array>('event')),
      category: cut(column<Uint8Array>('category')),
      matrix: cut(column<Uint8Array>('matrix')),
      name: cut(name.numbers),
      names: name.texts,
      module: cut(module.numbers),
      modules: module.texts,
    })
    from = to
  }
  return found
}

function batchOf(column: Column<unknown>): Batch<unknown> {
  return column.data[0]
}
