// The row of donuts above a table. A slice filters the table.
import { UnstyledButton } from '@mantine/core'
import { useState } from 'react'
import type { Payload } from '../../api/payloads'
import { splitList } from '../../state/hash'
import { followLink } from '../../state/links'
import { useRoute } from '../../state/route'
import { Card } from '../../widgets/basics'
import { Donut } from '../../widgets/breakdown'
import { ChevronDown, ChevronRight } from '../../widgets/icons'

export function Donuts({ payloads }: { payloads: Record<string, Payload> }) {
  const route = useRoute()
  const [open, setOpen] = useState(true)
  const where = splitList(route.where)
  const donuts = Object.values(payloads).flatMap((payload) => (payload.kind === 'breakdown' ? payload : []))
  if (donuts.length === 0) return null
  const activeOf = (payload: (typeof donuts)[number]) =>
    payload.parts.find((part) => part.link?.params.where && where.includes(part.link.params.where))?.metric.key
  return (
    <div className="tt-donuts-frame">
      <UnstyledButton className="tt-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? <ChevronDown /> : <ChevronRight />} Top 10
      </UnstyledButton>
      {open && (
        <div className={`tt-donuts tt-donuts-${Math.min(4, donuts.length)}`}>
          {donuts.map((payload) => (
            <Card key={payload.name} title={payload.title} subtitle={payload.subtitle}>
              <Donut payload={payload} onLink={followLink} active={activeOf(payload)} />
            </Card>
          ))}
        </div>
      )}
    </div>
  )
}
