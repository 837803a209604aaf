import { describe, expect, it } from 'vitest'
import type { Table } from '../../api/payloads'
import { schemaOf } from './schema'

const rows = [
  { table_name: 'kernels', column_name: 'name', unit: null, meaning: 'Name of the kernel.' },
  { table_name: 'kernels', column_name: 'dur_ns', unit: 'ns', meaning: 'Duration.' },
  { table_name: 'ranks', column_name: 'rank', unit: null, meaning: 'Name of the rank.' },
]
const table = { rows } as unknown as Table

describe('the columns that the editor completes', () => {
  const labels = (allRanks: boolean) =>
    Object.entries(schemaOf(table, allRanks)).map(([name, columns]) => [name, ...columns.map(({ label }) => label)])

  it('are those of the tables', () => {
    expect(labels(false)).toEqual([
      ['kernels', 'name', 'dur_ns'],
      ['ranks', 'rank'],
    ])
    expect(schemaOf(table, false).kernels[1]).toEqual({ label: 'dur_ns', detail: 'ns', info: 'Duration.' })
  })

  it('have one rank in each table of a query over all ranks', () => {
    expect(labels(true)).toEqual([
      ['kernels', 'rank', 'name', 'dur_ns'],
      ['ranks', 'rank'],
    ])
  })

  it('are none without a table', () => expect(schemaOf(null, true)).toEqual({}))
})
