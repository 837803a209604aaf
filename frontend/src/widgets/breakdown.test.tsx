import { MantineProvider } from '@mantine/core'
import type { ReactNode } from 'react'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import type { Breakdown, Figure, Metric, Series } from '../api/payloads'
import { BreakdownTable, Donut } from './breakdown'
import { Chart } from './chart'
import { Headline } from './figures'

const metric = (title: string): Metric => ({ key: title, title, unit: 'ns', definition: '', window: '' })
const words = (node: ReactNode) =>
  renderToStaticMarkup(<MantineProvider>{node}</MantineProvider>)
    .replaceAll(/<style.*?<\/style>/gs, '')
    .replaceAll(/<[^>]*>/g, '|')
    .split('|')
    .filter((word) => word.trim() !== '')

const parts = (values: Record<string, number>): Breakdown => ({
  kind: 'breakdown', name: 'b', title: 'B', subtitle: '', unit: 'ns', style: 'table', start: 0, interval: null,
  total: Object.values(values).reduce((sum, value) => sum + value, 0),
  parts: Object.entries(values).map(([title, value]) => ({ metric: metric(title), category: 'kernel', value, link: null, interval: null })),
}) // biome-ignore format: one line a thing

test('what has no events is no row of zeros', () => {
  const table = words(<BreakdownTable payload={parts({ Kernel: 2000, Memcpy: 0, CPU: 0 })} onLink={() => {}} of="%" />)
  expect(table.join(' ')).toContain('None recorded: Memcpy, CPU.')
  expect(table.filter((word) => word === 'Memcpy')).toEqual([])
  expect(words(<Donut payload={parts({ CPU: 0 })} onLink={() => {}} />)).toEqual(['None recorded.'])
})

test('tiles without a value are named together', () => {
  const figure = (title: string, value: number | null): Figure => ({ metric: metric(title), value, note: '' })
  const tiles = words(<Headline figures={[figure('Peak', null), figure('Step', 5), figure('Live', null)]} />)
  expect(tiles).toEqual(['Step', '5 ns', 'No data', 'Peak', ', ', 'Live'])
  expect(words(<Headline figures={[figure('Peak', null)]} />)).toEqual([])
})

test('a single step is no chart of one bar', () => {
  const series: Series = {
    kind: 'series', sql: '', name: 's', title: 'Steps', subtitle: '', style: 'stacked_bars', x: ['13'], x_metric: metric('Step'),
    lines: [{ metric: metric('Kernel'), category: 'kernel', values: [3000] }, { metric: metric('CPU'), category: 'cpu', values: [1000] }],
  } // biome-ignore format: one line a thing
  expect(words(<Chart series={series} height={10} />).join(' ')).toMatch(
    /Kernel .*3.00 µs.* 75.0 %.*CPU .*1.00 µs.*25.0 %/,
  )
})
