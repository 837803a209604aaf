// Properties of every page.
import type { Query } from '../api/client'
import type { Catalog, Profile } from '../api/payloads'

export interface PageProps {
  id: string
  catalog: Catalog
  profile: Profile
  /** run, worker, span, window, steps, phase and pattern: goes with every question. */
  base: Query
}
