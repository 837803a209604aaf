import { expect, it } from 'vitest'
import type { Timeline } from '../api/payloads'
import { eventAt, firstEndingAfter, neighbour, overview, positionOf, prepare } from './timelineModel'

/** Two tracks; events by track, row and start, as the server sends them. */
const PAYLOAD: Timeline = {
  kind: 'timeline',
  start_ns: 0,
  end_ns: 100,
  window_start_ns: 0,
  window_end_ns: 100,
  resolution_ns: 1,
  total_events: 4,
  tracks: [
    { title: 'stream', subtitle: '', is_device: true, rows: 1 },
    { title: 'thread', subtitle: '', is_device: false, rows: 2 },
  ],
  names: ['void at::native::f<int>(int)', 'aten::mm', 'step'],
  categories: ['kernel', 'operator', 'annotation'],
  track: [0, 0, 1, 1],
  row: [0, 0, 0, 1],
  start: [20, 60, 0, 10],
  dur: [20, 20, 100, 30],
  name: [0, 0, 2, 1],
  category: [0, 0, 2, 1],
  event: [1, 2, 0, 3],
  count: [4, 1, 1, 1],
  busy_ns: [10, 20, 100, 30],
}

it('finds rows', () => {
  const model = prepare(PAYLOAD)
  expect([...model.event]).toEqual([1, 2, 0, 3])
  expect([...model.ranges]).toEqual([0, 2, 3, 4])
  expect(model.labels).toEqual(['f', 'aten::mm', 'step'])
})

it('hits events, also narrowly missed ones', () => {
  const model = prepare(PAYLOAD)
  expect(firstEndingAfter(model, 0, 2, 45)).toBe(1)
  expect(model.event[eventAt(model, 0, 0, 65, 0)]).toBe(2)
  expect(eventAt(model, 0, 0, 50, 1)).toBe(-1)
  expect(model.event[eventAt(model, 0, 0, 58, 3)]).toBe(2)
  expect(model.event[eventAt(model, 1, 1, 10, 0)]).toBe(3)
})

it('sums up how busy the device was', () => {
  const { bins, device } = overview(prepare(PAYLOAD), 10)
  expect(device).toBe(true)
  expect([...bins]).toEqual([0, 0, 0.5, 0.5, 0, 0, 1, 1, 0, 0])
})

it('walks along a row, into an event and out of it', () => {
  const model = prepare(PAYLOAD)
  const from = (event: number, key: string) => model.event[neighbour(model, positionOf(model, event), key)]
  expect(from(1, 'ArrowRight')).toBe(2)
  expect(from(2, 'ArrowRight')).toBeUndefined()
  expect(from(2, 'ArrowLeft')).toBe(1)
  expect(from(0, 'ArrowDown')).toBe(3)
  expect(from(3, 'ArrowUp')).toBe(0)
  expect(from(0, 'ArrowUp')).toBeUndefined()
  expect(from(3, 'ArrowDown')).toBeUndefined()
  expect(positionOf(model, 99)).toBe(-1)
  expect(positionOf(model, null)).toBe(-1)
})
