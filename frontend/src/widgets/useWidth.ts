// How wide an element is: canvases and tables are drawn for the room that they have.
import { type RefObject, useEffect, useState } from 'react'

/** The inner width of an element in pixels, 0 before it stands in the page. */
export function useWidth(ref: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0)
  useEffect(() => {
    const node = ref.current
    if (!node) return
    const observer = new ResizeObserver(() => setWidth(node.clientWidth))
    observer.observe(node)
    setWidth(node.clientWidth)
    return () => observer.disconnect()
  }, [ref])
  return width
}
