// Where a box stands that tells about the place under the pointer.
import { clamp } from './axisTicks'

export interface Point {
  x: number
  y: number
}
export interface Size {
  width: number
  height: number
}

/** Pixels between the pointer and the box: it is seen what is pointed at. */
const AWAY = { x: 14, y: 16 }

/** Right of the pointer and below it, where there is no room left of it and above; inside of the window in any case. */
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
