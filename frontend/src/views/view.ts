// What every view gets.
import type { Query } from '../api/client'
import type { Profile } from '../api/payloads'

export interface ViewProps {
  id: string
  profile: Profile
  /** run, worker, span and steps: goes with every question. */
  base: Query
}
