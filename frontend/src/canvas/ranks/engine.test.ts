import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { SAME } from '../../lib/rankAxis'
import { LIGHT } from '../surface'
import { RanksEngine, type RanksEvents } from './engine'
import { SECTION } from './layout'
import type { RankSection } from './scene'
import { NO_PLACING, type Placing } from './tracks'

/** Of a section; none of these is read. */
const section = (key: string): RankSection => ({
  key,
  title: key,
  subtitle: '',
  note: '',
  isFailed: false,
  model: null,
  placement: SAME,
})
/** A placing each: every rank that comes makes a new one. */
const placing = (...more: string[]): Placing => ({
  ...NO_PLACING,
  sections: [...Array.from({ length: 64 }, (_, at) => `rank${at}`), ...more].map(section),
})
const chosen = (rank: string) => ({ rank, event: 7, spot: { lane: 0, row: 0, start: 1, end: 2 }, arrows: [] })

let engine: RanksEngine
beforeEach(() => {
  const listens = { addEventListener: () => {}, removeEventListener: () => {} }
  vi.stubGlobal('window', { ...listens, matchMedia: () => ({ matches: true }), clearTimeout: () => {} })
  vi.stubGlobal('ResizeObserver', class { observe() {} disconnect() {} }) // biome-ignore format: nothing happens in it
  // Nothing is drawn.
  vi.stubGlobal('requestAnimationFrame', () => 1)
  vi.stubGlobal('cancelAnimationFrame', () => {})
  const canvas = { ...listens, clientWidth: 1000, clientHeight: 600 } as unknown as HTMLCanvasElement
  engine = new RanksEngine(canvas, LIGHT, { start: 0, end: 10 }, {} as RanksEvents, [])
  engine.setPlacing(placing())
})
afterEach(() => {
  engine.destroy()
  vi.unstubAllGlobals()
})

test('what is chosen comes into sight while its trace is awaited, until somebody scrolls', () => {
  engine.setSelected(chosen('rank60'))
  expect(engine.scene.scroll).toBeGreaterThan(40 * SECTION)
  engine.setSelected(chosen('rank2'))
  expect(engine.scene.scroll).toBeLessThan(2 * SECTION)
  engine.scrollBy(1300)
  const { scroll } = engine.scene
  expect(scroll).toBeGreaterThan(1000)
  engine.setPlacing(placing())
  expect(engine.scene.scroll).toBe(scroll)
})

test('a rank that is not shown is not awaited', () => {
  engine.setSelected(chosen('gone'))
  const { scroll } = engine.scene
  engine.setPlacing(placing('gone'))
  expect(engine.scene.scroll).toBe(scroll)
})
