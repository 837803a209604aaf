import { MantineProvider } from '@mantine/core'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import type { Table } from '../api/payloads'
import { PayloadCard } from './payload'

const table = (count: number) =>
  ({
    kind: 'table',
    title: 'Links',
    name_column: 'name',
    columns: [{ metric: { key: 'name', title: 'Name', unit: 'text', definition: '', window: '' }, hidden: false }],
    rows: Array.from({ length: count }, (_, i) => ({ name: `row ${i}` })),
    matched_rows: count,
    total_rows: count,
  }) as unknown as Table

const text = (count: number) =>
  renderToStaticMarkup(
    <MantineProvider>
      <PayloadCard payload={table(count)} onLink={() => {}} />
    </MantineProvider>,
  )

test('a long table shows its first rows, and the others on demand', () => {
  expect(text(13)).toContain('5 more rows')
  expect(text(13)).not.toContain('row 8')
  expect(text(12)).toContain('row 11')
  expect(text(12)).not.toContain('more rows')
})
