// Requests before the first render: the catalog, then the open profile and the first answers of its page.
import { askEarly, getCatalog } from '../api/client'
import { resolveAddress, spanOf } from '../lib/profiles'
import { readRoute } from '../state/urlState'
import { loadCharts } from '../widgets/plot'

/** A slow server gets an empty page drawn meanwhile. */
const PATIENCE_MS = 200
/** What pages ask first about a whole profile. */
const QUESTIONS: Readonly<Record<string, readonly string[]>> = {
  overview: ['profile', 'view/overview', 'view/findings'],
  timeline: ['profile', 'view/timeline'],
}

async function askFirst(): Promise<void> {
  const route = readRoute()
  const { view = 'overview', window, capture, steps, phase, pattern } = route
  const catalog = await getCatalog()
  const address = resolveAddress(catalog, route)
  if (!address || window || capture || steps || phase || pattern) return
  // Other kinds of profiles have other pages.
  if (spanOf(catalog, address)?.model !== 'trace') return
  for (const path of QUESTIONS[view] ?? []) askEarly(path, { ...address })
  if (view === 'overview') loadCharts().catch(() => {})
}

/** Ends when the page should be drawn. */
export const start = (): Promise<unknown> =>
  Promise.race([askFirst().catch(() => {}), new Promise((done) => setTimeout(done, PATIENCE_MS))])
