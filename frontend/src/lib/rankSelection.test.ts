import { expect, test } from 'vitest'
import type { Catalog } from '../api/payloads'
import { inOrder, orderOf, rankFilter, rankKey, rankName, ranksText, selectedRanks, tracesOfRun } from './rankSelection'

const span = (id: string, model = 'trace', file = 'r.json') => ({ id, model, files: [file] })
const run = (name: string, workers: Record<string, ReturnType<typeof span>[]>) => ({
  name,
  workers: Object.entries(workers).map(([worker, spans]) => ({ name: worker, spans })),
})
const catalog = {
  runs: [
    run('a', {
      r0: [span('1'), span('2')],
      r1: [span('1')],
      'r/2,x': [span('1')],
      dump: [span('1', 'flight')],
      told: [span('1', 'trace', 'r.json.ttsummary')],
    }),
    run('b run', { r0: [span('1')] }),
  ],
} as unknown as Catalog
const open = { run: 'a', worker: 'r0', span: '1' }
const workers = (text: string | undefined) =>
  selectedRanks(catalog, open, text).map(({ run: of, worker }) => `${of}:${worker}`)

test('nothing chosen is the open profile alone', () => {
  expect(workers(undefined)).toEqual(['a:r0'])
  expect(workers('r0')).toEqual(['a:r0'])
})

test('a sign stands for all traces of the run and span, and no other model or summary alone', () => {
  expect(tracesOfRun(catalog, open).map(({ worker }) => worker)).toEqual(['r0', 'r1', 'r/2,x'])
  expect(workers('*')).toEqual(['a:r0', 'a:r1', 'a:r/2,x'])
  expect(ranksText(catalog, open, selectedRanks(catalog, open, '*'))).toBe('*')
})

test('a rank that is chosen twice stands once in the address', () => {
  const one = { ...open, worker: 'r1' }
  const other = { ...open, span: '2' }
  expect(ranksText(catalog, other, [one, one])).toBe(ranksText(catalog, other, [one]))
})

test('names with signs of their own, other runs and spans come back as they were', () => {
  for (const others of [
    [{ run: 'a', worker: 'r/2,x', span: '1' }],
    [
      { run: 'b run', worker: 'r0', span: '1' },
      { run: 'a', worker: 'r0', span: '2' },
    ],
  ]) {
    const text = ranksText(catalog, open, [open, ...others])
    expect(selectedRanks(catalog, open, text)).toEqual([open, ...others])
  }
  expect(rankName(rankKey(open, { run: 'b run', worker: 'r0', span: '1' }))).toBe('r0 of b run')
  expect(rankName(rankKey(open, { run: 'a', worker: 'r/2,x', span: '1' }))).toBe('r/2,x')
})

test('each rank once, and one that no run has stays: its section says what is wrong', () => {
  expect(workers('r1,r1,gone,r0')).toEqual(['a:r0', 'a:r1', 'a:gone'])
})

test('a filter is stretches of ranks, else a part of the name', () => {
  const names = Array.from({ length: 40 }, (_, rank) => `host${rank >> 3}_rank${rank}`)
  const found = (text: string) => names.filter(rankFilter(text)).map((name) => Number(name.split('rank')[1]))
  expect(found('')).toHaveLength(40)
  expect(found(' 8-10, 32')).toEqual([8, 9, 10, 32])
  expect(found('3')).toEqual([3])
  expect(found('HOST4')).toEqual([32, 33, 34, 35, 36, 37, 38, 39])
  expect(found('8-')).toEqual([])
  // Where a name tells no rank a number is a part of it.
  expect(['alpha', 'beta77'].filter(rankFilter('77'))).toEqual(['beta77'])
})

test('ranks are put in order below the open one, what is not known last', () => {
  const of = (...ranks: number[]) => ranks.map((rank) => ({ address: { ...open, worker: `rank${rank}` } }))
  const nodes = new Map([0, 1, 2, 3].map((rank) => [`rank${rank}`, rank < 2 ? 'b' : 'a']))
  const ranks = (order: string) =>
    inOrder(of(5, 3, 10, 0, 2), orderOf(order), nodes, ['rank2', 'rank10']).map(({ address }) =>
      address.worker.slice(4),
    )
  expect(ranks('')).toEqual(['5', '3', '10', '0', '2'])
  expect([ranks('unheard of'), ranks('toString')]).toEqual([ranks(''), ranks('')])
  expect(ranks('rank')).toEqual(['5', '0', '2', '3', '10'])
  expect(ranks('node')).toEqual(['5', '2', '3', '0', '10'])
  expect(ranks('late')).toEqual(['5', '2', '10', '0', '3'])
  expect(inOrder([], 'rank', nodes, [])).toEqual([])
})
