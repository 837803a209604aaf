import { expect, test } from 'vitest'
import { arrangeLanes, joinIds, moveLane, placeLane, placePinned, splitIds } from './laneOrder'

const LANES = ['a', 'b', 'c', 'd'].map((id) => ({ id, title: `Track ${id}`, subtitle: id === 'd' ? 'waits' : '' }))
const NONE = { pinned: [], moved: [], filter: '', hidden: [] }
const ids = (wish: Parameters<typeof arrangeLanes>[1]) => arrangeLanes(LANES, wish).order.map((i) => LANES[i].id)

test('as they come', () => {
  expect(ids(NONE)).toEqual(['a', 'b', 'c', 'd'])
})

test('pinned ones first, in the order of pinning; unknown ids mean nothing', () => {
  expect(ids({ ...NONE, pinned: ['d', 'gone', 'b'] })).toEqual(['d', 'b', 'a', 'c'])
  expect(arrangeLanes(LANES, { ...NONE, pinned: ['d', 'gone', 'b'] }).pinned).toBe(2)
})

test('a filter keeps what is pinned', () => {
  expect(ids({ ...NONE, pinned: ['a'], filter: 'WAITS' })).toEqual(['a', 'd'])
})

test('one step up and down, said as shortly as possible', () => {
  const up = moveLane(LANES, NONE, 'c', -1)
  expect(up).toEqual(['a', 'c', 'b'])
  expect(ids({ ...NONE, moved: up })).toEqual(['a', 'c', 'b', 'd'])
  expect(moveLane(LANES, { ...NONE, moved: up }, 'c', 1)).toEqual([])
  expect(moveLane(LANES, NONE, 'a', -1)).toEqual([])
  expect(ids({ ...NONE, pinned: ['a'], moved: moveLane(LANES, { ...NONE, pinned: ['a'] }, 'd', -1) })).toEqual([
    'a',
    'b',
    'd',
    'c',
  ])
})

test('hidden lanes have no place, pinned or not; a step passes them', () => {
  expect(ids({ ...NONE, pinned: ['c', 'b'], hidden: ['b', 'gone'] })).toEqual(['c', 'a', 'd'])
  const moved = moveLane(LANES, { ...NONE, hidden: ['b'] }, 'c', -1)
  expect(ids({ ...NONE, moved, hidden: ['b'] })).toEqual(['c', 'a', 'd'])
})

test('a lane is put before another one, or to the end', () => {
  expect(ids({ ...NONE, moved: placeLane(LANES, NONE, 'd', 'b') })).toEqual(['a', 'd', 'b', 'c'])
  expect(ids({ ...NONE, moved: placeLane(LANES, NONE, 'a', null) })).toEqual(['b', 'c', 'd', 'a'])
  expect(placeLane(LANES, NONE, 'a', 'b')).toEqual([])
  expect(placePinned(['a', 'b', 'c'], 'c', 'a')).toEqual(['c', 'a', 'b'])
  expect(placePinned(['a', 'b', 'c'], 'a', null)).toEqual(['b', 'c', 'a'])
})

test('ids survive the URL', () => {
  const odd = ['1/2/calls', 'a,b', 'ü %']
  expect(splitIds(joinIds(odd))).toEqual(odd)
  expect(splitIds(undefined)).toEqual([])
  expect(splitIds('%')).toEqual(['%'])
})
