// Wheel and clicks, on the timeline of several ranks: it needs no events.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RanksEngine, type RanksEvents } from '../ranks/engine'
import { NO_PLACING } from '../ranks/tracks'
import { LIGHT } from '../surface'
import { gutterOf } from './layout'

const WIDTH = 1000
const LEFT = gutterOf(0, WIDTH)
const listeners = new Map<string, (event: unknown) => void>()
const told: [string, ...unknown[]][] = []
const tell =
  (name: string) =>
  (value: unknown, ...more: unknown[]) =>
    told.push([name, value, ...more])
let engine: RanksEngine

const send = (type: string, event: object) => {
  const preventDefault = vi.fn()
  const none = { deltaX: 0, deltaY: 0, deltaMode: 0, button: 0, pointerId: 1, ctrlKey: false, metaKey: false }
  listeners.get(type)?.({ ...none, shiftKey: false, offsetX: LEFT, offsetY: 200, preventDefault, ...event })
  return preventDefault.mock.calls.length > 0
}
const click = (offsetX: number) => {
  send('pointerdown', { offsetX })
  send('pointerup', { offsetX })
}

beforeEach(() => {
  const listens = { addEventListener: () => {}, removeEventListener: () => {} }
  vi.stubGlobal('window', { ...listens, matchMedia: () => ({ matches: true }), clearTimeout: () => {} })
  vi.stubGlobal('ResizeObserver', class { observe() {} disconnect() {} }) // biome-ignore format: nothing happens in it
  vi.stubGlobal('requestAnimationFrame', () => 1)
  vi.stubGlobal('cancelAnimationFrame', () => {})
  const canvas = {
    addEventListener: (type: string, listener: (event: unknown) => void) => listeners.set(type, listener),
    clientWidth: WIDTH,
    clientHeight: 600,
    style: {},
    focus: () => {},
    setPointerCapture: () => {},
  } as unknown as HTMLCanvasElement
  told.length = 0
  const events = {
    onView: tell('view'),
    onRange: tell('range'),
    onMeasure: tell('measure'),
    onWheelScroll: tell('scroll'),
    onPick: tell('pick'),
  } as unknown as RanksEvents
  engine = new RanksEngine(canvas, LIGHT, { start: 200, end: 1000 }, events, [])
  engine.setPlacing({ ...NO_PLACING, whole: { start: 0, end: 10_000 } })
  engine.setGutter(0)
  Object.assign(engine.scene, { width: WIDTH, height: 600 })
})
afterEach(() => {
  engine.destroy()
  vi.unstubAllGlobals()
})

test('a wheel that finds nothing to scroll is left to the page, and says so', () => {
  engine.setWheel('scroll')
  expect(send('wheel', { deltaY: 100 })).toBe(false)
  expect(told).toEqual([['scroll', undefined]])
  expect(engine.scene.view).toEqual({ start: 200, end: 1000 })
})

test('with Ctrl it zooms around the pointer, by a pinch with fewer pixels as well', () => {
  engine.setWheel('scroll')
  expect(send('wheel', { deltaY: -200, ctrlKey: true })).toBe(true)
  const { start, end } = engine.scene.view
  expect(start).toBe(200)
  expect(end - start).toBeCloseTo(800 * Math.exp(-200 * 0.0022))
  send('wheel', { deltaY: -10, ctrlKey: true })
  expect(engine.scene.view.end - engine.scene.view.start).toBeLessThan((end - start) * 0.92)
})

test('with Shift it moves in time', () => {
  engine.setWheel('scroll')
  send('wheel', { deltaY: 100, shiftKey: true })
  expect(engine.scene.view.start).toBeGreaterThan(200)
  expect(engine.scene.view.end - engine.scene.view.start).toBe(800)
})

test('two clicks measure the time between them; no event is selected', () => {
  const x = (share: number) => LEFT + share * (WIDTH - LEFT)
  engine.measureFrom()
  click(x(0.75))
  click(x(0.25))
  expect(told).toEqual([
    ['measure', 'first'],
    ['measure', 'second'],
    ['measure', null],
    ['range', { start: 400, end: 800 }],
  ])
  click(x(0.5))
  expect(told.slice(4)).toEqual([
    ['range', null],
    ['pick', null],
  ])
})

test('a measurement may have its first point already', () => {
  engine.measureFrom(300)
  click(LEFT + 0.5 * (WIDTH - LEFT))
  expect(told.at(-1)).toEqual(['range', { start: 300, end: 600 }])
})

test.each([
  [200, 'stream 7'],
  [50, null],
])('a range that begins at height %d says the track: %s', (offsetY, track) => {
  Object.assign(engine, { titleAt: () => 'stream 7' })
  send('pointerdown', { offsetX: LEFT, offsetY, shiftKey: true })
  send('pointermove', { offsetX: LEFT + 0.5 * (WIDTH - LEFT), offsetY, shiftKey: true })
  send('pointerup', { offsetX: LEFT + 0.5 * (WIDTH - LEFT), offsetY, shiftKey: true })
  expect(told.at(-1)).toEqual(['range', { start: 200, end: 600 }, track])
})
