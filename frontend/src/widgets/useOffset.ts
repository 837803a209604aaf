// An element's offset in its scroll container.
import { type RefObject, useLayoutEffect, useState } from 'react'

/** Pixels from the scroller's start to the element. */
export function useOffset(ref: RefObject<HTMLElement | null>, scroller: () => HTMLElement | null): number {
  const [offset, setOffset] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: an element stays in what scrolls it
  useLayoutEffect(() => {
    const node = ref.current
    const around = scroller()
    if (!node || !around) return
    const measure = () =>
      setOffset(Math.round(node.getBoundingClientRect().top - around.getBoundingClientRect().top + around.scrollTop))
    const observer = new ResizeObserver(measure)
    // Any change above resizes a sibling or an ancestor.
    for (let at: HTMLElement | null = node; at && at !== around; at = at.parentElement)
      for (const child of at.parentElement?.children ?? []) observer.observe(child)
    measure()
    return () => observer.disconnect()
  }, [])
  return offset
}
