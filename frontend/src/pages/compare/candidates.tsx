// Baselines that are offered, each with its reason.
import { useMemo } from 'react'
import type { Catalog } from '../../api/payloads'
import { baselineCandidates } from '../../lib/baselines'
import { format } from '../../lib/format'
import { type Address, addressText, sameAddress, spanOf } from '../../lib/profiles'
import { MenuButton } from '../../parts/menuButton'
import { LinkButton } from '../../widgets/basics'
import { setBaseline } from './compareBar'
import css from './candidates.module.css'

export function Candidates({ catalog, exp, label }: { catalog: Catalog; exp: Address; label: string }) {
  const found = useMemo(() => baselineCandidates(catalog, exp), [catalog, exp])
  return (
    <ul className={css.candidates} aria-label={label}>
      {found.map((one) => (
        <li key={addressText(one)}>
          <LinkButton onClick={() => setBaseline(one)}>{addressText(one)}</LinkButton>{' '}
          <small>{[one.reason, stepTime(catalog, one)].filter(Boolean).join(' · ')}</small>
        </li>
      ))}
    </ul>
  )
}

function stepTime(catalog: Catalog, address: Address): string {
  const time = spanOf(catalog, address)?.key_figures.find(({ metric }) => metric.unit === 'ns')
  return time ? `${time.metric.title} ${format(time.value, 'ns')}` : ''
}

/** Other baselines, beside the picker. */
export function CandidatesMenu({
  catalog,
  exp,
  baseline,
}: {
  catalog: Catalog
  exp: Address
  baseline: Address | null
}) {
  const isAlone = useMemo(
    () => baselineCandidates(catalog, exp).every((one) => sameAddress(one, baseline)),
    [catalog, exp, baseline],
  )
  if (isAlone) return null
  return (
    <MenuButton label="Suggestions" position="bottom-start">
      <Candidates catalog={catalog} exp={exp} label="Suggested baselines" />
    </MenuButton>
  )
}
