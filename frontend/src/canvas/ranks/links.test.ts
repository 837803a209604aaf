import { expect, test } from 'vitest'
import type { Tile } from '../timeline/tileStore'
import { itemOf } from './hit'
import { COLORS, collectiveLinks, lateRanks, linkedRanksText, OTHER_RANKS } from './links'
import { type Call, type Collective, collectiveOf, collectivesByCall, isEqualList, type VisibleSection } from './scene'

const call = (rank: string, start: number, event: number): Call => ({ rank, start, end: start + 5, event, lateness: 7 })
const collective = (match: number, ...calls: Call[]): Collective => ({
  match,
  name: 'allreduce',
  last: 'c',
  lateness: 7,
  calls,
})
const collectives = [
  collective(3, call('a', 10, 100), call('c', 20, -1)),
  collective(4, call('a', 30, 101), call('gone', 30, 9)),
]
const sections = ['c', 'b', 'a'].map((key) => ({ section: { key } }) as unknown as VisibleSection)

test('calls of a collective are linked from top to bottom, in the colour of the rank that came last', () => {
  const links = collectiveLinks(sections, collectives)
  expect(links.map(({ ends }) => ends.map(({ at, call }) => [at, call.start]))).toEqual([
    [
      [0, 20],
      [2, 10],
    ],
    [[2, 30]],
  ])
  expect(links.map(({ kind }) => kind)).toEqual(['last0', 'last0'])
  expect(collectiveLinks(sections.slice(1), collectives)[0].kind).toBe('other')
})

test('those that came last by most have a colour of their own, if it can be that of their place; of more ranks than colours the rest share one', () => {
  const keys = Array.from({ length: 12 }, (_, at) => `r${at}`)
  const came = (...lasts: [last: string, lateness: number][]) =>
    lateRanks(
      keys,
      lasts.map(([last, lateness], at) => ({ ...collective(at), last, lateness })),
    )
  expect(came(['r7', 5], ['r0', 1], ['r2', 4], ['r2', 4], ['gone', 99], ['r1', 0])).toEqual([
    { key: 'r2', kind: 'last2', count: 2, lateness: 8 },
    { key: 'r7', kind: 'last3', count: 1, lateness: 5 },
    { key: 'r0', kind: 'last0', count: 1, lateness: 1 },
    { key: 'r1', kind: 'last1', count: 1, lateness: 0 },
  ])
  const all = came(...keys.map((key): [string, number] => [key, 3]))
  expect(all.map(({ key }) => key)).toEqual(keys)
  const kinds = all.map(({ kind }) => kind)
  expect(new Set(kinds.slice(0, COLORS)).size).toBe(COLORS)
  expect(new Set(kinds.slice(COLORS))).toEqual(new Set([OTHER_RANKS]))
  // Noise that is last more often takes no colour from the costliest one, and leaves it its own.
  const noise = ['r0', 'r1', 'r2', 'r3', 'r4', 'r5', 'r6'].flatMap((key): [string, number][] => [
    [key, 2],
    [key, 2],
  ])
  expect(came(...noise, ['r7', 900])[0]).toEqual({ key: 'r7', kind: 'last2', count: 1, lateness: 900 })
})

test('what failed is not waited for, and ranks of another run take no part', () => {
  const shown = (key: string, isRead: boolean, isFailed = false) =>
    ({ section: { key, isFailed }, scene: isRead ? {} : null }) as unknown as VisibleSection
  const all = [shown('', true), shown('a', true)]
  expect(linkedRanksText(all, 2)).toBe('linked on all 2 ranks of this timeline')
  expect(linkedRanksText([...all, shown('b', false)], 2)).toBe(
    'linked on 2 of the ranks on this timeline, 1 rank not loaded yet',
  )
  expect(linkedRanksText([...all, shown('b', true), shown('c', true)], 2)).toBe(
    'linked on 2 of the ranks on this timeline',
  )
  expect(linkedRanksText([...all, shown('b', false, true)], 2)).toBe('linked on 2 of the ranks on this timeline')
  expect(linkedRanksText([...all, shown('other/a/1', true), shown('other/b/1', false)], 2)).toBe(
    'linked on all 2 ranks of this timeline',
  )
})

test('an event is known by its number, by its start only where nothing tells its number', () => {
  const scene = { partners: collectivesByCall(collectives) }
  expect(collectiveOf(scene, 'a', 100, 10)?.match).toBe(3)
  // Another event that begins at the same time is no collective.
  expect(collectiveOf(scene, 'a', 55, 10)).toBeUndefined()
  expect(collectiveOf(scene, 'c', 55, 20)?.match).toBe(3)
})

test('the item of a call is that of its event, among others that begin with it', () => {
  const tile = {
    start: Float64Array.of(0, 10, 10, 20),
    dur: Float64Array.of(10, 0, 10, 3),
    event: Int32Array.of(1, 2, 3, 4),
    ranges: Int32Array.of(0, 4),
  } as unknown as Tile
  const found = (event: number, start: number) => itemOf(tile, 0, { ...call('', start, event), end: 20 })
  expect([found(1, 0), found(2, 10), found(3, 10), found(4, 20)]).toEqual([0, 1, 2, 3])
  expect([found(-1, 10), found(9, 10)]).toEqual([2, -1])
})

test('what is kept is drawn again only of the same', () => {
  const match = () => true
  expect(isEqualList([1, match, null], [1, match, null])).toBe(true)
  expect(isEqualList([1, match, null], [1, () => true, null])).toBe(false)
  expect(isEqualList([1], [1, 2])).toBe(false)
})
