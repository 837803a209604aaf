// What the page asks before it is drawn: the catalog, then the open profile and its Overview.
import { askEarly, getCatalog } from '../api/client'
import { resolveAddress } from '../lib/profiles'
import { readRoute } from '../state/urlState'
import { loadCharts } from '../widgets/plot'

/** A slow server gets an empty page drawn meanwhile. */
const PATIENCE_MS = 200
/** With any other key in the URL, the first questions differ. */
const PLAIN = new Set(['run', 'worker', 'span', 'view', 'per'])

async function askFirst(): Promise<void> {
  const address = resolveAddress(await getCatalog(), readRoute())
  const route = readRoute()
  const keys = Object.entries(route).flatMap(([key, value]) => (value ? [key] : []))
  if (!address || keys.some((key) => !PLAIN.has(key)) || (route.view ?? 'overview') !== 'overview') return
  askEarly('profile', { ...address })
  askEarly('view/overview', { ...address })
  askEarly('view/findings', { ...address })
  loadCharts().catch(() => {})
}

/** Ends when the page should be drawn. */
export const start = (): Promise<unknown> =>
  Promise.race([askFirst().catch(() => {}), new Promise((done) => setTimeout(done, PATIENCE_MS))])
