// Operator and Python line of the hovered event.
import { useEffect, useState } from 'react'
import { getView, type Query } from '../../api/client'
import { shortFrame } from '../../lib/frames'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { useResource } from '../../state/data'
import textCss from '../../widgets/text.module.css'
import tipCss from '../../widgets/tip.module.css'

/** The pointer rests so long before the server is asked. */
const REST_MS = 120
const LONGEST = 60

/** Two lines: the operator with its forward operator, and the Python line. */
export function originLines(operator: string, forward: string, line: string): string[] {
  const names = [operator, forward && forward !== operator ? `forward ${forward}` : ''].filter(Boolean)
  return [names.join(' · '), line && shortFrame(line, LONGEST)].filter(Boolean)
}

export function EventOrigin({ event, base }: { event: number; base: Query }) {
  const [rested, setRested] = useState(-1)
  useEffect(() => {
    const timer = window.setTimeout(() => setRested(event), REST_MS)
    return () => window.clearTimeout(timer)
  }, [event])
  const query = { ...base, event, brief: 1 }
  const key = rested === event ? JSON.stringify(['brief', query]) : ''
  const { data } = useResource(key, (signal) => getView('events', query, signal), false)
  const brief = data && payloadByName(data, 'brief', 'figures')
  const [operator, forward, line] = ['operator', 'forward_operator', 'code_line'].map((key) =>
    String(figureValue(brief, key) ?? ''),
  )
  return originLines(operator, forward, line).map((text) => (
    <div key={text} className={`${tipCss.line} ${textCss.mute} ${textCss.mono}`}>
      {text}
    </div>
  ))
}
