import { expect, it } from 'vitest'
import cases from '../../../tests/around_cases.json'
import { eventWindow } from './eventWindow'

it.each(cases)('shows what begins at $start_ns and takes $dur_ns as links of the server do', (each) => {
  expect(eventWindow(each.start_ns, each.dur_ns)).toEqual({ start: each.from_ns, end: each.to_ns })
})
