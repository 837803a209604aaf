import { expect, test } from 'vitest'
import type { Series } from '../api/payloads'
import { LIGHT } from '../canvas/surface'
import { spreadOption, spreadRows, spreadScale, spreadText, topOf } from './spreadOption'

const KEYS = ['max', 'p95', 'p75', 'median', 'p25', 'p5', 'min']
const SERIES: Series = {
  kind: 'series',
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

test('an axis that one rank would stretch ends with what most ranks reach, and says what lies beyond', () => {
  expect(topOf(SERIES)).toEqual({ top: null, beyond: null })
  const [first, ...others] = SERIES.lines
  const far = { ...SERIES, lines: [{ ...first, values: [7e6, 900e6, null] }, ...others] }
  expect(topOf(far)).toEqual({ top: 15e6, beyond: 900e6 })
  expect((spreadOption(far, 'wait', WORST, LIGHT).yAxis as { max: number }).max).toBe(15)
})

test('the tooltip names the worst rank of a step, and the sentence that of all', () => {
  const rows = spreadRows(SERIES, WORST, 1, spreadScale(SERIES))
  expect(rows[0]).toMatchObject({ name: 'max', value: '14.0 ms', note: 'rank7' })
  expect(rows[6].value).toBe('2.00 ms')
  expect(spreadText(SERIES, WORST)).toContain('largest 14.0 ms at step 4, rank7')
})
