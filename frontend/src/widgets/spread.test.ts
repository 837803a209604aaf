import { expect, test } from 'vitest'
import type { Series } from '../api/payloads'
import { LIGHT } from '../canvas/surface'
import { footOf, spreadOption, spreadRows, spreadScale, spreadText } from './spread'

const KEYS = ['max', 'p95', 'p75', 'median', 'p25', 'p5', 'min']
const SERIES: Series = {
  kind: 'series',
  sql: '',
  name: 'spread',
  title: 'Waiting',
  subtitle: '8 ranks, by step',
  x_metric: { key: 'step', title: 'Step', unit: 'text', definition: '', window: '' },
  x: ['3', '4', '5'],
  style: 'lines',
  lines: KEYS.map((key, i) => ({
    metric: { key: `rank_${key}_ns`, title: key, unit: 'ns', definition: '', window: '' },
    category: 'wait',
    values: [(7 - i) * 1e6, (7 - i) * 2e6, null],
  })),
}
const WORST = ['rank3', 'rank7', '']

test('areas are stacked on their lower ends, and nothing is drawn where nothing is known', () => {
  const option = spreadOption(SERIES, 'wait', WORST, LIGHT)
  const lines = option.series as { data: (number | null)[]; areaStyle?: unknown }[]
  expect(lines).toHaveLength(7)
  const [low, span] = lines
  expect(low.data).toEqual([1, 2, null])
  expect(span.data).toEqual([6, 12, null])
  expect(span.areaStyle).toBeDefined()
  expect(lines[6].data).toEqual([4, 8, null])
})

test('an axis that one rank would stretch is logarithmic and reaches it; what is far below stands at its foot', () => {
  expect(footOf(SERIES)).toBeNull()
  const [first, ...others] = SERIES.lines
  const far = { ...SERIES, lines: [{ ...first, values: [7e6, 900e6, null] }, ...others] }
  expect(footOf(far)).toBe(1e6)
  const { yAxis, series } = spreadOption(far, 'wait', WORST, LIGHT) as {
    yAxis: { type: string; min: number }
    series: { data: number[] }[]
  }
  expect(yAxis).toMatchObject({ type: 'log', min: 1 })
  expect(series[0].data[1] + series[1].data[1]).toBe(900)
  const zero = { ...far, lines: [...far.lines.slice(0, 6), { ...far.lines[6], values: [0, 0, null] }] }
  expect((spreadOption(zero, 'wait', WORST, LIGHT).series as { data: number[] }[])[0].data).toEqual([2, 2, null])
})

test('the tooltip names the worst rank of a step, and the sentence that of all', () => {
  const rows = spreadRows(SERIES, WORST, 1, spreadScale(SERIES))
  expect(rows[0]).toMatchObject({ name: 'max', value: '14.0 ms', note: 'rank7' })
  expect(rows[6].value).toBe('2.00 ms')
  expect(spreadText(SERIES, WORST)).toContain('largest 14.0 ms at step 4, rank7')
})
