import { expect, test } from 'vitest'
import { ranksShort } from './ranksText'

test('a row of ranks is its ends, anything else what it was', () => {
  expect(ranksShort('[0, 1, 2, 3]')).toBe('0-3')
  expect(ranksShort('[0, 8, 16]')).toBe('0-16 by 8')
  expect(ranksShort('[4, 5]')).toBe('4, 5')
  expect(ranksShort('[0, 1, 3]')).toBe('0, 1, 3')
  expect(ranksShort('[7]')).toBe('7')
  expect(ranksShort('[0, 1, ..., 63]')).toBe('[0, 1, ..., 63]')
  expect(ranksShort('0-1023')).toBe('0-1023')
})
