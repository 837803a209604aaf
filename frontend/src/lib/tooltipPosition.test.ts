import { describe, expect, it } from 'vitest'
import { tooltipPosition } from './tooltipPosition'

const BOX = { width: 300, height: 200 }
const WINDOW = { width: 1000, height: 700 }

describe('a tip', () => {
  it('stands right of the pointer and below it', () => {
    expect(tooltipPosition({ x: 100, y: 100 }, BOX, WINDOW)).toEqual({ x: 114, y: 116 })
  })
  it('stands on the other side where there is no room', () => {
    expect(tooltipPosition({ x: 990, y: 690 }, BOX, WINDOW)).toEqual({ x: 676, y: 474 })
  })
  it('leaves points free where another corner has room', () => {
    const pointer = { x: 400, y: 300 }
    expect(tooltipPosition(pointer, BOX, WINDOW, [{ x: 500, y: 400 }])).toEqual({ x: 86, y: 316 })
    expect(
      tooltipPosition(pointer, BOX, WINDOW, [
        { x: 500, y: 400 },
        { x: 300, y: 400 },
      ]),
    ).toEqual({ x: 414, y: 84 })
    const everywhere = [0, 1, 2, 3].map((i) => ({ x: i % 2 ? 300 : 500, y: i > 1 ? 200 : 400 }))
    expect(tooltipPosition(pointer, BOX, WINDOW, everywhere)).toEqual({ x: 414, y: 316 })
  })
  it('never leaves the window', () => {
    expect(tooltipPosition({ x: 150, y: 90 }, BOX, { width: 320, height: 220 })).toEqual({ x: 0, y: 0 })
    expect(tooltipPosition({ x: 5, y: 5 }, BOX, { width: 200, height: 100 })).toEqual({ x: 0, y: 0 })
  })
})
