// Whether the page is being printed, for components that then show all that is loaded.
import { useSyncExternalStore } from 'react'
import { flushSync } from 'react-dom'
import { isPrinting, onPrinting } from '../lib/printing'

/** Drawn at once: the browser prints when its event is over. */
const subscribe = (listener: () => void) => onPrinting(() => flushSync(listener))

export const usePrinting = (): boolean => useSyncExternalStore(subscribe, isPrinting)
