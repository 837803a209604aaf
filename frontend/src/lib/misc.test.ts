import { expect, it } from 'vitest'
import { divisions, multiples, rulerStep, tickLabel } from './axisTicks'
import { templatePieces } from './noticeTemplate'
import { matcher, parseSearch } from './search'

it('splits templates', () => {
  expect(templatePieces('Takes {time} of {step}.')).toEqual([
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

it('places the marks of a ruler as close as their labels allow, with round divisions between them', () => {
  expect(rulerStep(1, () => 70)).toBe(100)
  expect(rulerStep(1, () => 40)).toBe(50)
  expect(rulerStep(0.001, () => 70)).toBe(1)
  expect(rulerStep(3e6, () => 60)).toBe(2e8)
  expect([1, 2, 5, 10, 20, 5000, 1e9].map(divisions)).toEqual([1, 2, 5, 10, 10, 10, 10])
  expect(multiples(1, 10, 2)).toEqual([2, 4, 6, 8, 10])
  expect(multiples(3, 4, 5)).toEqual([])
  expect(tickLabel(2_300_000, 100_000, 900_000)).toBe('2,300 µs')
  expect(tickLabel(2_300_000, 100_000, 9_000_000)).toBe('2.3 ms')
})
