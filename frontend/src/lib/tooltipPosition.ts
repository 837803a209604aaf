// Position of a tooltip near the pointer.
import { clamp } from './axisTicks'

export interface Point {
  x: number
  y: number
}
interface Size {
  width: number
  height: number
}

const AWAY = { x: 14, y: 16 }

/**
 * Beside the pointer, right and below if there is room; always inside the window. Of the corners with room, the first
 * that covers the fewest of the `clear` points.
 */
export function tooltipPosition(pointer: Point, box: Size, window: Size, clear: readonly Point[] = []): Point {
  const along = (at: number, away: number, length: number, room: number) => {
    const sides = [at + away, at - away - length].filter((start) => start >= 0 && start + length <= room)
    return sides.length > 0 ? sides : [clamp(at - away - length, 0, Math.max(0, room - length))]
  }
  const across = along(pointer.x, AWAY.x, box.width, window.width)
  let best = { x: across[0], y: 0, covered: Number.POSITIVE_INFINITY }
  for (const y of along(pointer.y, AWAY.y, box.height, window.height))
    for (const x of across) {
      const isUnder = (at: Point) => at.x >= x && at.x <= x + box.width && at.y >= y && at.y <= y + box.height
      const covered = clear.filter(isUnder).length
      if (covered < best.covered) best = { x, y, covered }
    }
  return { x: best.x, y: best.y }
}
