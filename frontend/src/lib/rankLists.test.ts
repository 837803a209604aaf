import { expect, test } from 'vitest'
import { parseRanks, ranksShort } from './rankLists'

test('a row of ranks is its ends, anything else what it was', () => {
  expect(ranksShort('[0, 1, 2, 3]')).toBe('0-3')
  expect(ranksShort('[0, 8, 16]')).toBe('0-16 by 8')
  expect(ranksShort('[4, 5]')).toBe('4, 5')
  expect(ranksShort('[0, 1, 3]')).toBe('0, 1, 3')
  expect(ranksShort('[7]')).toBe('7')
  expect(ranksShort('[0, 1, ..., 63]')).toBe('[0, 1, ..., 63]')
  expect(ranksShort('0-1023')).toBe('0-1023')
})

const listed = (text: string) => [...(parseRanks(text) ?? [])]

test('ranks of a group as tables spell them, short or not', () => {
  expect(listed('0, 1, 2')).toEqual([0, 1, 2])
  expect(listed('[4, 12]')).toEqual([4, 12])
  expect(listed('7')).toEqual([7])
  expect(listed('0-3')).toEqual([0, 1, 2, 3])
  expect(listed('1-57 by 8')).toEqual([1, 9, 17, 25, 33, 41, 49, 57])
})

test('a list that is cut names nobody, and none is no group', () => {
  for (const text of ['0, 1, 2, 3, … (64)', '[0, 1, ..., 63]', '', 'all ranks', '9-3', '0-999999999'])
    expect(parseRanks(text)).toBeNull()
})
