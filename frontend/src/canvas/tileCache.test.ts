import { expect, test } from 'vitest'
import type { TileKey } from '../lib/tiles'
import { Budget, TileCache } from './tileCache'

const keys = (...numbers: number[]): TileKey[] => numbers.map((number) => ({ level: 0, group: 0, number }))
const settle = () => new Promise((done) => setTimeout(done, 0))

/** A cache whose tiles are as many bytes as they say; `under` holds the requests that nobody answered yet. */
class Numbers extends TileCache<number, number> {
  protected make = (_: TileKey, raw: number) => raw
  protected sizeOf = (tile: number) => tile
}

function made(budget: Budget, bytes = 10) {
  const under: (() => void)[] = []
  const cache = new Numbers(
    (_, tiles, signal) =>
      new Promise((resolve, reject) => {
        under.push(() => resolve(tiles.map(() => bytes)))
        signal.addEventListener('abort', () => reject(new Error('aborted')))
      }),
    { onChange: () => {}, onProblem: () => {} },
    budget,
  )
  return { cache, under }
}

const answered = async (under: (() => void)[]) => {
  for (const answer of under.splice(0)) answer()
  await settle()
}

test('many caches have a few requests under way together; each gets its turn', async () => {
  const all = Array.from({ length: 20 }, () => null)
  const budget = new Budget(1e6, 3)
  const caches = all.map(() => made(budget))
  for (const { cache } of caches) cache.want(keys(0, 1))
  let [rounds, most] = [0, 0]
  for (; caches.some(({ under }) => under.length > 0); rounds++) {
    most = Math.max(
      most,
      caches.reduce((sum, { under }) => sum + under.length, 0),
    )
    for (const { under } of caches) await answered(under)
  }
  expect(most).toBe(3)
  expect(rounds).toBeGreaterThan(1)
  expect(caches.every(({ cache }) => keys(0, 1).every((key) => cache.has(key)))).toBe(true)
  expect(budget.kept).toBe(20 * 2 * 10)
})

test('what nobody looks at goes first, and no more than has to', async () => {
  const budget = new Budget(45, 8)
  const [old, seen] = [made(budget), made(budget)]
  for (const one of [old, seen]) {
    one.cache.want(keys(0, 1))
    await answered(one.under)
  }
  old.cache.rest()
  seen.cache.want(keys(0, 1, 2))
  await answered(seen.under)
  expect(budget.kept).toBe(40)
  expect(keys(0, 1).map((key) => old.cache.has(key))).toEqual([false, true])
  expect(keys(0, 1, 2).every((key) => seen.cache.has(key))).toBe(true)
})

test('a cache that ends gives back what it had, and its requests', async () => {
  const budget = new Budget(100, 1)
  const [first, second] = [made(budget), made(budget)]
  first.cache.want(keys(0))
  second.cache.want(keys(0))
  expect([first.under.length, second.under.length]).toEqual([1, 0])
  first.cache.destroy()
  await settle()
  expect(second.under.length).toBe(1)
  await answered(second.under)
  second.cache.destroy()
  second.cache.destroy()
  expect(budget.kept).toBe(0)
  expect(budget.isFree).toBe(true)
})

test('a cache out of sight asks for nothing more', async () => {
  const budget = new Budget(100, 1)
  const [first, second] = [made(budget), made(budget)]
  first.cache.want(keys(0))
  second.cache.want(keys(0))
  second.cache.rest()
  await answered(first.under)
  expect(second.under.length).toBe(0)
})

test('a tile that came twice counts once', () => {
  const budget = new Budget(100)
  const { cache } = made(budget)
  const [key] = keys(0)
  for (const bytes of [10, 10, 7]) cache.keep(key, bytes)
  expect(budget.kept).toBe(7)
  expect(cache.drop()).toBe(7)
})
