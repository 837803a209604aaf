// Dismissed findings: rule ids in the URL.
import { useCallback, useEffect, useMemo, useRef } from 'react'
import type { Query } from '../../api/client'
import { readRoute, setRoute, useRoute } from '../../state/urlState'

const idsOf = (text = '') => text.split(',').filter(Boolean)

export function useQueryWithoutDismissed(base: Query): Query {
  const { dismissed = '' } = useRoute()
  return useMemo(() => ({ ...base, without: dismissed }), [base, dismissed])
}

/** Ids of the open, restore and show buttons. */
export const openButtonId = (rule: string) => `finding-${rule}-title`
export const restoreButtonId = (rule: string) => `finding-${rule}-restore`
export const DISMISSED = 'findings-dismissed'

/** Dismisses and restores; focus moves to the next finding. */
export function useDismissals(told: readonly string[], dismissed: readonly string[], answer: unknown) {
  const wanted = useRef<string[]>([])
  const focus = useCallback(() => {
    if (document.activeElement !== document.body && document.activeElement !== null) return
    for (const id of wanted.current) {
      const found = document.getElementById(id)
      found?.focus()
      if (found) return
    }
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: what has the focus goes with the old answer
  useEffect(() => {
    focus()
    wanted.current = []
  }, [answer])
  const move = (rule: string, isDismissed: boolean, ids: string[]) => {
    wanted.current = ids
    setDismissed(rule, isDismissed)
    requestAnimationFrame(focus)
  }
  return {
    dismiss: (rule: string) => move(rule, true, [...nextFocus(told, rule).map(openButtonId), DISMISSED]),
    restore: (rule: string) =>
      move(rule, false, [...nextFocus(dismissed, rule).map(restoreButtonId), openButtonId(rule)]),
  }
}

/** The next rule, else the previous one. */
const nextFocus = (rules: readonly string[], rule: string) => {
  const at = rules.indexOf(rule)
  return [...rules.slice(at + 1, at + 2), ...rules.slice(Math.max(0, at - 1), at)]
}

function setDismissed(rule: string, isDismissed: boolean): void {
  const others = idsOf(readRoute().dismissed).filter((id) => id !== rule)
  setRoute({ dismissed: (isDismissed ? [...others, rule] : others).join(','), rule: '' }, true)
}
