import { expect, test } from 'vitest'
import { rankZoom } from './rankZoom'

test('a cause on the host needs all tracks, one on the device its streams alone', () => {
  const row = { worst_step: '7', late_cause: 'in any words', more_compute_ns: 5, more_idle_ns: null, more_host_ns: -3 }
  expect(rankZoom({ ...row, more_input_ns: 9 }, false)).toEqual({ steps: '7', detail: 'all' })
  expect(rankZoom({ ...row, more_host_ns: 6 }, false).detail).toBe('all')
  expect(rankZoom({ ...row, more_input_ns: 4 }, false).detail).toBe('')
  expect(rankZoom({ more_host_ns: -1 }, false)).toEqual({ steps: '', detail: '' })
})

test('where nothing computes on a device all is on the host; nothing is known of who is no straggler', () => {
  expect(rankZoom({ more_compute_ns: 5 }, true).detail).toBe('all')
  expect(rankZoom(undefined, false)).toEqual({ steps: '', detail: '' })
})
