// Keyboard shortcuts of every view; inactive while typing.
import { useEffect, useRef } from 'react'
import type { Profile } from '../api/payloads'
import { isTyping } from '../canvas/typing'
import { openView, readRoute, setRoute } from '../state/urlState'
import { inOrder } from './nav'

function stepBy(profile: Profile, by: number): void {
  const labels = profile.steps.map((step) => step.label)
  if (labels.length === 0) return
  const at = labels.indexOf(readRoute().steps ?? '')
  const next = at < 0 ? (by > 0 ? 0 : labels.length - 1) : Math.min(labels.length - 1, Math.max(0, at + by))
  setRoute({ steps: labels[next] }, true)
}

export function useShortcuts(profile: Profile | null, onHelp: () => void): void {
  const latest = useRef({ profile, onHelp })
  latest.current = { profile, onHelp }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      const { profile: open, onHelp: help } = latest.current
      if (event.key === '?') help()
      else if (event.key === '/') document.querySelector<HTMLInputElement>('input[data-search]')?.focus()
      else if (event.key === '[' && open) stepBy(open, -1)
      else if (event.key === ']' && open) stepBy(open, 1)
      else if (/^[1-9]$/.test(event.key) && open) {
        const view = inOrder(open.views)[Number(event.key) - 1]
        if (view?.available) openView(view.id)
      } else return
      event.preventDefault()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}
