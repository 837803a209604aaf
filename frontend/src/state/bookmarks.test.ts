import { expect, it } from 'vitest'
import { MOST, NOTE_LENGTH, readBookmarks, writeBookmarks } from './bookmarks'
import { mergeHash, readHash } from './tensorboardHash'

const through = (text: string) => readHash(mergeHash('', { bookmarks: text })).bookmarks

it('survives the address bar, whatever a note says', () => {
  const notes = ['', 'why so late?', '<b>&p.x=1;#\u00fc:7, 50 %', '行列', '1:2']
  const bookmarks = notes.map((note, i) => ({ time: i * 1000, note }))
  expect(readBookmarks(through(writeBookmarks(bookmarks)))).toEqual(bookmarks)
})

it('is in order of time, one for each, without what is no bookmark', () => {
  expect(readBookmarks('30:c\u001f10\u001fx\u001f-5:no\u001f10:again\u001f99999999999999999999')).toEqual([
    { time: 10, note: 'again' },
    { time: 30, note: 'c' },
  ])
  expect(readBookmarks(undefined)).toEqual([])
})

it('is bounded, and a note is one line', () => {
  const many = Array.from({ length: MOST + 9 }, (_, time) => ({ time, note: '' }))
  expect(readBookmarks(writeBookmarks(many))).toHaveLength(MOST)
  const [long] = readBookmarks(writeBookmarks([{ time: 1, note: `a\u001fb\n${'x'.repeat(500)}` }]))
  expect(long.note).toMatch(/^a b x+$/)
  expect(long.note).toHaveLength(NOTE_LENGTH)
})
