import { expect, test } from 'vitest'
import { fileName, placeOf } from './exportNames'

test('a file is named for what is open, and the name suits every system', () => {
  const place = placeOf({ run: 'a/b', worker: 'rank 0', span: '1', window: '', steps: '3-4', pattern: 'x' })
  expect(place).toEqual([['Run', 'a/b'], ['Worker', 'rank 0'], ['Span', '1'], ['Steps', '3-4']]) // biome-ignore format: one line
  expect(placeOf({ per_step: 3 })).toEqual([['Sums', 'per step']])
  expect(fileName([...place.map(([, value]) => value), 'Idle time: "why?"'])).toBe('a_b-rank_0-1-3-4-Idle_time_why')
  expect(fileName(['..', '/', ''])).toBe('..')
})
