// Findings that a person has dismissed: ids of their rules, in the URL of every view.
import { useMemo } from 'react'
import type { Query } from '../../api/client'
import { readRoute, setRoute, useRoute } from '../../state/route'

const idsOf = (text = '') => text.split(',').filter(Boolean)

/** A question that leaves the dismissed findings out. */
export function useWithout(base: Query): Query {
  const { dismissed = '' } = useRoute()
  return useMemo(() => ({ ...base, without: dismissed }), [base, dismissed])
}

export function setDismissed(rule: string, isDismissed: boolean): void {
  const others = idsOf(readRoute().dismissed).filter((id) => id !== rule)
  setRoute({ dismissed: (isDismissed ? [...others, rule] : others).join(','), rule: '' }, true)
}
