// Bookmarks with notes, stored in the URL.
import { joinList, splitList } from './tensorboardHash'

export interface Bookmark {
  time: number
  note: string
}

/** More make a link that some programs cut. */
export const MOST = 40
export const NOTE_LENGTH = 120

/** Bookmarks by time; invalid ones are dropped. */
export function readBookmarks(text: string | undefined): Bookmark[] {
  const found = splitList(text).flatMap((item) => {
    const [, time, note] = item.match(/^(\d{1,16})(?::(.*))?$/s) ?? []
    return time === undefined || !Number.isSafeInteger(Number(time))
      ? []
      : [{ time: Number(time), note: plain(note ?? '') }]
  })
  const byTime = new Map(found.map((one) => [one.time, one]))
  return [...byTime.values()].sort((a, b) => a.time - b.time).slice(0, MOST)
}

export const writeBookmarks = (bookmarks: readonly Bookmark[]): string =>
  joinList(bookmarks.map(({ time, note }) => (note === '' ? String(time) : `${time}:${plain(note)}`)))

// biome-ignore lint/suspicious/noControlCharactersInRegex: those are what must not be in it
const plain = (note: string) => note.replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, NOTE_LENGTH)
