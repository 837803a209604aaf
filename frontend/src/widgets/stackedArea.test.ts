import { expect, it } from 'vitest'
import type { Series } from '../api/payloads'
import { axisScale, edgesOf, stackedAreas } from './curveOption'

const metric = (key: string) => ({ key, title: key, unit: 'bytes' as const, definition: '', window: '' })
const series: Series = {
  kind: 'series',
  sql: '',
  name: 'curve',
  title: '',
  subtitle: '',
  x_metric: { ...metric('t'), unit: 'ns' },
  x: [0, 5, 9],
  lines: [
    { metric: metric('a'), category: 'parameter', values: [1024, 1024, 0] },
    { metric: metric('b'), category: 'gradient', values: [0, 2048, 512] },
  ],
  style: 'stacked_area',
}

it('puts each category on those below it', () =>
  expect(edgesOf(series)).toEqual([
    [1024, 1024, 0],
    [1024, 3072, 512],
  ]))

it('draws the top first and marks what is drawn last', () => {
  const drawn = stackedAreas(series, 1024, { markPoint: 1 }) as {
    name: string
    data: number[][]
  }[]
  expect(drawn.map(({ name }) => name)).toEqual(['b', 'a'])
  expect(drawn[0].data).toEqual([
    [0, 1],
    [5, 3],
    [9, 0.5],
  ])
  expect(['markPoint' in drawn[0], 'markPoint' in drawn[1]]).toEqual([false, true])
})

it('has the axis reach the sum', () => expect(axisScale(series).symbol).toBe('KiB'))
