// Links to profiles recorded together with the open one.
import { useState } from 'react'
import type { Catalog, Profile } from '../../api/payloads'
import { format } from '../../lib/format'
import { addressText } from '../../lib/profiles'
import { type Companion, useCompanions } from '../../state/companions'
import { openViewOfProfile } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import textCss from '../../widgets/text.module.css'
import css from './companionCard.module.css'

const NOUN: Record<string, string> = { snapshot: 'A trace', trace: 'A memory snapshot' }

/** Empty without companions. `onOpen` returns view and state of the link. */
export function CompanionCard(props: {
  catalog: Catalog
  profile: Profile
  label: string
  target: (beside: Companion) => { view: string; params: Record<string, string> }
}) {
  const { catalog, profile, label, target } = props
  const [wanted, setWanted] = useState('')
  const found = useCompanions(catalog, profile, wanted)
  if (found.length === 0) return null
  return (
    <Card title={`${NOUN[profile.model] ?? 'A profile'} of the same process`}>
      <ul className={css.list}>
        {found.map((beside) => {
          const key = JSON.stringify(beside.address)
          const { view, params } = target(beside)
          return (
            <li key={key} className={textCss.row}>
              <span>
                {addressText(beside.address)}
                {beside.profile
                  ? `: recorded together for ${format(beside.overlap_ns, 'ns')}`
                  : ': overlap not checked'}
              </span>
              {beside.profile ? (
                <SmallButton onClick={() => openViewOfProfile({ ...beside.address }, view, params)}>
                  {label}
                </SmallButton>
              ) : (
                <SmallButton
                  loading={wanted === key}
                  onClick={() => setWanted(key)}
                  title="Loads the profile and checks whether both were recorded together"
                >
                  Check recording times
                </SmallButton>
              )}
            </li>
          )
        })}
      </ul>
    </Card>
  )
}
