// Position of a tooltip near the pointer.
import { clamp } from './axisTicks'

interface Point {
  x: number
  y: number
}
interface Size {
  width: number
  height: number
}

const AWAY = { x: 14, y: 16 }

/** Right of and below the pointer, or left and above if there is no room; always inside the window. */
export function tooltipPosition(pointer: Point, box: Size, window: Size): Point {
  const along = (at: number, away: number, length: number, room: number) => {
    const behind = at + away + length <= room
    return clamp(behind ? at + away : at - away - length, 0, Math.max(0, room - length))
  }
  return {
    x: along(pointer.x, AWAY.x, box.width, window.width),
    y: along(pointer.y, AWAY.y, box.height, window.height),
  }
}
