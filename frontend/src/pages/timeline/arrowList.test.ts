import { expect, test } from 'vitest'
import type { Flows } from '../../api/payloads'
import { recordedAt } from './arrowList'

const FLOWS: Flows = {
  kind: 'flows',
  names: ['read', 'parse', 'draw', 'request'],
  categories: ['annotation'],
  kinds: ['launch', 'recorded'],
  event: [3, 5, 8],
  lane: [0, 1, 1],
  row: [0, 0, 0],
  start_ns: [100, 400, 250],
  dur_ns: [50, 10, 0],
  name: [0, 1, 2],
  category: [0, 0, 0],
  from: [0, 2, 0, 1],
  to: [1, 1, 2, 1],
  arrow: [1, 1, 0, 1],
  label: [3, -1, -1, 3],
  total: 4,
  hidden: 0,
}

test('recorded arrows at an event, in order of time', () => {
  const { previous, next } = recordedAt(FLOWS, 5)
  expect(previous.map(({ event, label, offset }) => [event, label, offset])).toEqual([
    [3, 'request', -300],
    [8, '', -150],
  ])
  expect(next).toEqual([])
  expect(previous[0].at).toEqual({ start: 100, end: 150 })
})

test('the other end lists the arrow as its next; arrows of other kinds are none', () => {
  expect(recordedAt(FLOWS, 3).next.map(({ name }) => name)).toEqual(['parse'])
  expect(recordedAt(FLOWS, 3).previous).toEqual([])
  expect(recordedAt(FLOWS, 99)).toEqual({ previous: [], next: [] })
})
