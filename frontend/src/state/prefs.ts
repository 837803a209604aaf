// Preferences stored in the browser, if storage is allowed.
import { useSyncExternalStore } from 'react'
import { DEFAULT_EDITOR } from '../lib/frames'
import type { WheelStyle } from '../lib/wheel'

const KEY = 'torch_trace'

interface Prefs {
  editor: string
  navFolded: boolean
  /** Share of the timeline that the panel below it takes. */
  panel: number
  /** Pixels that the names of tracks take; 0 = as at first. */
  gutter: number
  /** Effect of a plain wheel on timelines. */
  wheel: WheelStyle
  /** Whether the hint on zooming was closed or has been read. */
  wheelHinted: boolean
  /** Whether the tour was seen or skipped. */
  toured: boolean
}

export const PANEL = { least: 0.15, most: 0.8, usual: 0.38 }
const DEFAULTS: Prefs = {
  editor: DEFAULT_EDITOR,
  navFolded: false,
  panel: PANEL.usual,
  gutter: 0,
  wheel: 'scroll',
  wheelHinted: false,
  toured: false,
}

const within = (value: unknown, least: number, most: number, usual: number) =>
  typeof value === 'number' && value >= least && value <= most ? value : usual

function read(): Prefs {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}')
    if (typeof stored !== 'object' || stored === null) return DEFAULTS
    const { editor, navFolded, panel, gutter, wheel, wheelHinted, toured } = stored as Partial<
      Record<keyof Prefs, unknown>
    >
    return {
      editor: typeof editor === 'string' && editor !== '' ? editor : DEFAULTS.editor,
      navFolded: navFolded === true,
      panel: within(panel, PANEL.least, PANEL.most, DEFAULTS.panel),
      gutter: within(gutter, 0, 4000, DEFAULTS.gutter),
      wheel: wheel === 'zoom' ? 'zoom' : DEFAULTS.wheel,
      wheelHinted: wheelHinted === true,
      toured: toured === true,
    }
  } catch {
    return DEFAULTS
  }
}

let current = read()
const listeners = new Set<() => void>()

export function setPrefs(change: Partial<Prefs>): void {
  current = { ...current, ...change }
  try {
    localStorage.setItem(KEY, JSON.stringify(current))
  } catch {
    // Storage is forbidden: valid until the page is closed.
  }
  for (const listener of listeners) listener()
}

export function usePrefs(): Prefs {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => current,
  )
}
