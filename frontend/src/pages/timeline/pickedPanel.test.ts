import { expect, test } from 'vitest'
import type { Item } from '../../canvas/timeline/model'
import { pickedTotals, togglePicked } from './pickedPanel'

const item = (event: number, start: number, dur: number) => ({ event, start, dur }) as Item

test('totals of selected events: count, sum, span and busy time', () => {
  // In no order, one nested in another, and a gap of 10.
  const totals = pickedTotals([item(3, 60, 20), item(1, 0, 50), item(2, 10, 20)])
  expect(totals).toEqual({ count: 3, sum: 90, covered: 70, start: 0, end: 80 })
})

test('an event joins the selection once, and leaves it', () => {
  const one = togglePicked([], item(1, 0, 5))
  const two = togglePicked(one, item(2, 5, 5))
  expect(two.map(({ event }) => event)).toEqual([1, 2])
  expect(togglePicked(two, item(1, 0, 5)).map(({ event }) => event)).toEqual([2])
})
