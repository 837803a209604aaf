import { expect, it } from 'vitest'
import type { WindowInfo } from '../api/payloads'
import { nextWindow, previousWindow, windowStart, windowStarts } from './traceWindows'

const STEPS = ['3', '4', '5', '6', '7', '8']

function window(change: Partial<WindowInfo>): WindowInfo {
  return {
    start_ns: 100,
    end_ns: 300,
    trace_ns: 1000,
    first_step: null,
    last_step: null,
    steps: 0,
    trace_steps: 0,
    events: 1,
    trace_events: 2,
    peak_memory_bytes: 2,
    budget_bytes: 1,
    ...change,
  }
}

const some = (first_step: string, last_step: string, steps: number) => window({ first_step, last_step, steps })

it('goes by whole steps', () => {
  expect(nextWindow(some('3', '4', 2), STEPS)).toBe('5')
  expect(previousWindow(some('7', '8', 2), STEPS)).toBe('5-6')
  expect(previousWindow(some('4', '6', 3), STEPS)).toBe('3-3')
  expect(windowStarts(some('3', '4', 2), STEPS).map(({ value }) => value)).toEqual(STEPS)
  expect(windowStart(some('4', '6', 3))).toBe('4')
})

it('ends with the trace', () => {
  expect(nextWindow(some('7', '8', 2), STEPS)).toBeNull()
  expect(previousWindow(some('3', '4', 2), STEPS)).toBeNull()
  expect(nextWindow(window({ end_ns: 1000 }), [])).toBeNull()
  expect(previousWindow(window({ start_ns: 0 }), [])).toBeNull()
})

it('goes by time where no step is inside', () => {
  expect(nextWindow(window({}), STEPS)).toBe('300ns')
  expect(previousWindow(window({}), STEPS)).toBe('0ns-100ns')
  expect(windowStarts(window({}), STEPS).map(({ value }) => value)).toEqual(
    [0, 100, 200, 400, 600, 800].map((at) => `${at}ns`),
  )
  expect(windowStart(window({}))).toBe('100ns')
})

it('never lists more begins than one can scroll through', () => {
  expect(windowStarts(window({ start_ns: 0, end_ns: 1, trace_ns: 1e12 }), []).length).toBeLessThanOrEqual(201)
})
