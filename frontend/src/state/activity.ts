// `<html data-state="busy|idle">`, which tests wait for.
import { useEffect } from 'react'

const QUIET_MS = 80
let under = 0
let timer = 0

function settle(): void {
  window.clearTimeout(timer)
  timer = window.setTimeout(() => {
    // A chart reports busy while its library loads.
    if (under > 0 || document.querySelector('[aria-busy="true"]')) settle()
    else document.documentElement.dataset.state = 'idle'
  }, QUIET_MS)
}

/** Settles a page without requests. */
export const useFirstSettle = (): void => useEffect(settle, [])

/** While `busy`, the page is not done. */
export function useActivity(busy: boolean): void {
  useEffect(() => {
    if (!busy) return
    under++
    document.documentElement.dataset.state = 'busy'
    return () => {
      under--
      settle()
    }
  }, [busy])
}
