// Wheel and touchpad on a canvas with a time axis.

/** Effect of a plain wheel. With Ctrl or Cmd, and by a pinch on a touchpad, it always zooms. */
export type WheelStyle = 'scroll' | 'zoom'

/** The effect of a wheel event: zoom, or a move along the axis or across it. */
export function wheelAction(
  event: Pick<WheelEvent, 'deltaX' | 'deltaY' | 'ctrlKey' | 'metaKey' | 'shiftKey'>,
  style: WheelStyle,
  isOverLabels: boolean,
): 'zoom' | 'along' | 'across' {
  const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY)
  if (event.ctrlKey || event.metaKey) return 'zoom'
  if (style === 'scroll') return isSideways || event.shiftKey ? 'along' : 'across'
  if (event.shiftKey || isOverLabels) return 'across'
  return isSideways ? 'along' : 'zoom'
}
