import { expect, test } from 'vitest'
import { parseEventNumber } from './eventNumber'

test('a number of an event is read as people write it', () => {
  expect(['', ' ', '12', '1,234', '1 234', '-1', '007'].map(parseEventNumber)).toEqual([
    '',
    '',
    '12',
    '1234',
    '1234',
    '-1',
    '7',
  ])
  expect(['-2', 'x', '1.5', '1e3', '9'.repeat(13)].map(parseEventNumber)).toEqual([null, null, null, null, null])
})
