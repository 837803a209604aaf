// An element's size.
import { type RefObject, useEffect, useState } from 'react'

function useSize(ref: RefObject<HTMLElement | null>, sizeOf: (node: HTMLElement) => number): number {
  const [size, setSize] = useState(0)
  useEffect(() => {
    const node = ref.current
    if (!node) return
    const observer = new ResizeObserver(() => setSize(sizeOf(node)))
    observer.observe(node)
    setSize(sizeOf(node))
    return () => observer.disconnect()
  }, [ref, sizeOf])
  return size
}

const widthOf = (node: HTMLElement) => node.clientWidth
const heightOf = (node: HTMLElement) => node.offsetHeight

/** Inner width in pixels; 0 before mount. */
export const useWidth = (ref: RefObject<HTMLElement | null>): number => useSize(ref, widthOf)

/** Outer height in pixels; 0 before mount. */
export const useHeight = (ref: RefObject<HTMLElement | null>): number => useSize(ref, heightOf)
