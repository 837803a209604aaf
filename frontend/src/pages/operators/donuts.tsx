// Donuts above a table, on demand; a slice filters it.

import { Tooltip, UnstyledButton } from '@mantine/core'
import { useState } from 'react'
import type { Link, Payload } from '../../api/payloads'
import { followLink } from '../../state/links'
import { splitList } from '../../state/tensorboardHash'
import { useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Donut } from '../../widgets/breakdown'
import { Switch } from '../../widgets/choice'
import { ChevronDown, ChevronRight } from '../../widgets/icons'
import basicsCss from '../../widgets/basics.module.css'
import textCss from '../../widgets/text.module.css'
import css from './donuts.module.css'

/** By how many there are, four at most. */
const COLUMNS = [css.one, css.two, css.three, css.four]

/** The donut's definition, on hover and focus of its title. */
function Titled({ title, help }: { title: string; help: string }) {
  return (
    <Tooltip label={help} disabled={help === ''}>
      <span className={basicsCss.metric} tabIndex={0}>
        {title}
      </span>
    </Tooltip>
  )
}

/** `onLink` replaces the default action of a slice. */
export function Donuts(props: { payloads: Record<string, Payload>; onLink?: (link: Link) => void }) {
  const { payloads, onLink = followLink } = props
  const route = useRoute()
  const [open, setOpen] = useState(false)
  const [kind, setKind] = useState('self')
  const where = splitList(route.where)
  const donuts = Object.values(payloads).flatMap((payload) => (payload.kind === 'breakdown' ? payload : []))
  if (donuts.length === 0) return null
  // Four donuts would push the table off the page: self or total, as in the table.
  const paired = donuts.length > 2 && donuts.every((payload) => /_(self|total)$/.test(payload.name))
  // With more than two: the first and a selectable one.
  const others = !paired && donuts.length > 2 ? donuts.slice(1) : []
  const beside = others.find((payload) => payload.name === kind) ?? others[0]
  const shown = paired
    ? donuts.filter((payload) => payload.name.endsWith(`_${kind}`))
    : beside
      ? [donuts[0], beside]
      : donuts
  const activeOf = (payload: (typeof donuts)[number]) =>
    payload.parts.find((part) => part.link?.params.where && where.includes(part.link.params.where))?.metric.key
  return (
    <div className={css.frame}>
      <div className={textCss.row}>
        <UnstyledButton className={css.fold} aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? <ChevronDown /> : <ChevronRight />} Charts of the top 10
        </UnstyledButton>
        {open && paired && (
          <Switch
            label="Time of the donuts"
            value={kind}
            onChange={setKind}
            options={{ self: 'Self time', total: 'Total time' }}
          />
        )}
      </div>
      {open && (
        <div className={`${css.donuts} ${COLUMNS[Math.min(4, shown.length) - 1]}`}>
          {shown.map((payload) => (
            <Card
              key={payload.name}
              label={payload.title}
              title={<Titled title={payload.title} help={payload.subtitle} />}
              actions={
                payload === beside && (
                  <Switch
                    label="Content of the second donut"
                    value={beside.name}
                    onChange={setKind}
                    options={others.map(({ name, title }) => ({ value: name, label: title }))}
                  />
                )
              }
            >
              <Donut payload={payload} onLink={onLink} active={activeOf(payload)} />
            </Card>
          ))}
        </div>
      )}
    </div>
  )
}
