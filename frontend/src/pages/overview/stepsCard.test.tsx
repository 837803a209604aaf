import { MantineProvider } from '@mantine/core'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it, vi } from 'vitest'
import type { Column, Problem, Table } from '../../api/payloads'
import type { Pages } from '../../lib/tableRows'
import { StepRows } from './stepsCard'

// It reads the address of the window.
vi.mock('../../state/urlState', () => ({ setRoute: () => undefined }))

const column = (key: string, unit: 'text' | 'ns') =>
  ({ metric: { key, title: key, unit, definition: '', window: '' }, hidden: false, share: false }) as Column
const TABLE = {
  name: 'steps',
  columns: [column('step', 'text'), column('total_ns', 'ns')],
  rows: [],
  name_column: 'step',
  row_key: ['step'],
  extremes: { total_ns: [1, 1001] },
  sort: null,
} as unknown as Table
const PROBLEM: Problem = { what: 'The server does not answer.', where: 'table/overview/steps', do: 'Start it.' }

/** 1,001 steps, of which the first `loaded` are loaded. */
const pages = (loaded: number, problem: Problem | null = null): Pages => ({
  table: loaded ? TABLE : null,
  count: loaded ? 1001 : 0,
  row: (i) => (i < loaded ? { step: `step ${i}`, total_ns: i + 1 } : undefined),
  want: () => undefined,
  empty: new Set(),
  busy: false,
  problem,
})

function shown(found: Pages, start = 0): string {
  const none = () => undefined
  const html = renderToStaticMarkup(
    <MantineProvider>
      <StepRows pages={found} start={start} onStart={none} onStep={none} onSort={none} />
    </MantineProvider>,
  )
  return html.replaceAll(/<style.*?<\/style>/gs, '')
}

const steps = (html: string) => [...html.matchAll(/>step (\d+)</g)].map((found) => Number(found[1]))

it('shows one page of steps, and which', () => {
  const first = shown(pages(200))
  expect(steps(first)).toEqual(Array.from({ length: 200 }, (_, i) => i))
  expect(first).toContain('Rows 1 to 200 of 1,001')
  const last = shown(pages(1001), 1000)
  expect(steps(last)).toEqual([1000])
  expect(last).toContain('Rows 1,001 to 1,001 of 1,001')
})

it('shows the problem of a failed request in the place of its rows', () => {
  expect(shown(pages(0, PROBLEM))).toContain('The server does not answer.')
  const second = shown(pages(200, PROBLEM), 200)
  expect(second).toContain('The server does not answer.')
  expect(second).toContain('Rows 201 to 400 of 1,001')
  const first = shown(pages(200, PROBLEM))
  expect(first).not.toContain('The server does not answer.')
  expect(steps(first)).toHaveLength(200)
})
