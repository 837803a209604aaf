import { expect, it } from 'vitest'
import { niceStep, tickLabel, ticks } from './scale'
import { matcher, parseSearch } from './search'
import { pieces } from './template'

it('splits templates', () => {
  expect(pieces('Takes {time} of {step}.')).toEqual([
    { kind: 'text', text: 'Takes ' },
    { kind: 'figure', key: 'time' },
    { kind: 'text', text: ' of ' },
    { kind: 'figure', key: 'step' },
    { kind: 'text', text: '.' },
  ])
})

it('searches', () => {
  expect(matcher('')).toBeNull()
  expect(matcher('CONV')?.('aten::conv2d')).toBe(true)
  expect(matcher('/^aten::(mm|bmm)$/')?.('aten::bmm')).toBe(true)
  expect(parseSearch('/(/').kind).toBe('bad')
  expect(matcher('/(/')).toBeNull()
})

it('places ticks', () => {
  expect(niceStep(1000, 10)).toBe(100)
  expect(ticks(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10])
  expect(tickLabel(2_300_000, 100_000, 900_000)).toBe('2,300 µs')
  expect(tickLabel(2_300_000, 100_000, 9_000_000)).toBe('2.3 ms')
})
