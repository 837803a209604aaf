import { expect, test } from 'vitest'
import { outermost } from './timelineScene'

const gap = (lane: number, start: number, end: number) => ({ lane, start, end, why: '', cause: '' })

test('a gap of the device inside a gap of its stream is drawn with it', () => {
  const gaps = [gap(1, 30, 50), gap(0, 10, 20), gap(1, 20, 90), gap(1, 90, 95), gap(0, 10, 20), gap(2, 30, 40)]
  expect(outermost(gaps).map(({ lane, start, end }) => [lane, start, end])).toEqual([
    [0, 10, 20],
    [1, 20, 90],
    [1, 90, 95],
    [2, 30, 40],
  ])
})
