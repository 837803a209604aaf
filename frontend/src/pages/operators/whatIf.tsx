// Step times if work were shorter, longer or gone.
import { Button, NumberInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Query } from '../../api/client'
import { labelsOf, labelText } from '../../lib/names'
import { spansOfRun } from '../../lib/profiles'
import { added, EXAMPLES, hasName, KINDS, type Kind, scaleOf, shortScale, withFactor } from '../../lib/scales'
import { Answers, HeadlineCard, NoticesCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { numberOf, payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { ViewFrame } from '../../parts/viewFrame'
import { useAllWorkersView, useQuery, useView } from '../../state/data'
import { joinList, splitList } from '../../state/tensorboardHash'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, SmallButton, Value } from '../../widgets/basics'
import { Choice } from '../../widgets/choice'
import { Sentence } from '../../widgets/notices'
import { SmallTable } from '../../widgets/smallTable'
import pageCss from '../../parts/pageHead.module.css'
import frameCss from '../../parts/viewFrame.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'
import css from './whatIf.module.css'

const GROUPS: Group[] = [{ table: 'whatif', label: 'Changes', nameStyle: 'change' }]
const CHIP_CHARACTERS = 60

export function WhatIf({ base, profile, catalog }: PageProps) {
  const scales = splitList(useRoute().scale)
  const asked = useQuery(base, { scale: scales })
  const resource = useView('whatif', asked)
  const hasRanks = profile.views.some(({ id, available }) => id === 'distributed' && available)
  const ranks = hasRanks ? spansOfRun(catalog, profile, profile.model).length : 1
  const choose = (next: readonly string[]) => setRoute({ scale: joinList(next) }, true)
  const add = (scale: string) => choose(added(scales, scale))
  return (
    <div className={frameCss.page}>
      <Card title="Simulated changes" subtitle="A simulation replays the steps in their recorded order.">
        <div className={css.form}>
          <Form onAdd={add} />
          {scales.length > 0 && (
            <div className={css.chosen}>
              {[...labelsOf(scales, CHIP_CHARACTERS, shortScale)].map(([scale, label]) => (
                <SmallButton
                  key={scale}
                  title={scale}
                  aria-label={`Remove ${scale}`}
                  rightSection="×"
                  onClick={() => choose(scales.filter((each) => each !== scale))}
                >
                  <span className={textCss.mono}>{labelText(label)}</span>
                </SmallButton>
              ))}
              <SmallButton onClick={() => choose([])}>Remove all</SmallButton>
            </div>
          )}
        </div>
      </Card>
      <TablePage
        view="whatif"
        resource={resource}
        base={asked}
        bones={120}
        waits
        top={(view) => (
          <div className={layoutCss.column}>
            <HeadlineCard label="Answer" className={pageCss.head} below>
              <Answers view={view} />
              <p className={css.step}>
                {scales.length === 0 && (
                  <>
                    Without changes, a step takes{' '}
                    <Value value={numberOf(payloadByName(view, 'summary', 'figures'), 'whatif_step_ns')} unit="ns" />.{' '}
                  </>
                )}
                {scales.length > 1
                  ? 'The table starts with each change alone, and all together.'
                  : 'Savings overlap; do not add them.'}
              </p>
            </HeadlineCard>
            <NoticesCard view={view} />
            {scales.length > 0 && ranks > 1 && (
              <AllRanks key={scales.join()} base={base} scales={scales} ranks={ranks} />
            )}
          </div>
        )}
        groups={GROUPS}
        placeholder="Search changes, text or /regex/"
        detail={(row) => {
          const change = String(row.change)
          return change.includes('=') ? (
            <div className={css.chosen}>
              <SmallButton onClick={() => add(change)}>Choose this change</SmallButton>
              <SmallButton onClick={() => add(withFactor(change, '0.5'))}>Half the time</SmallButton>
            </div>
          ) : null
        }}
      />
    </div>
  )
}

/** The same changes on every rank of the job, on request: the other ranks are read. */
function AllRanks({ base, scales, ranks }: { base: Query; scales: readonly string[]; ranks: number }) {
  const [wanted, want] = useState(false)
  return (
    <Card
      title="All ranks"
      subtitle="The changes apply to all steps of every rank. Each collective ends after its last rank has started it."
    >
      {wanted ? (
        <JobAnswer base={base} scales={scales} />
      ) : (
        <SmallButton onClick={() => want(true)}>Simulate all {ranks} ranks</SmallButton>
      )}
    </Card>
  )
}

function JobAnswer({ base, scales }: { base: Query; scales: readonly string[] }) {
  const resource = useAllWorkersView(
    'distributed',
    useQuery(base, { worker: '', steps: '', phase: '', scale: scales }),
    true,
  )
  return (
    <ViewFrame resource={resource} bones={120}>
      {(view) => {
        const table = payloadByName(view, 'whatif', 'table')
        return (
          <div className={layoutCss.column}>
            {payloadByName(view, 'answer', 'notices')?.notices.map((notice) => (
              <p key={notice.text} className={css.step}>
                <Sentence notice={notice} text={notice.text} />
              </p>
            ))}
            {table && <SmallTable table={table} nameStyle="change" counted />}
          </div>
        )
      }}
    </ViewFrame>
  )
}

function Form({ onAdd }: { onAdd: (scale: string) => void }) {
  const [kind, setKind] = useState<Kind>('operator')
  const [name, setName] = useState('')
  const [factor, setFactor] = useState<string | number>(0.5)
  const isReady = factor !== '' && (name.trim() !== '' || !hasName(kind))
  return (
    <form
      className={css.fields}
      onSubmit={(event) => {
        event.preventDefault()
        if (isReady) onAdd(scaleOf(kind, name, String(factor)))
      }}
    >
      <Choice label="Kind of work" value={kind} options={KINDS} onChange={(next) => setKind(next as Kind)} />
      {hasName(kind) && (
        <TextInput
          size="xs"
          className={css.name}
          aria-label="Name"
          placeholder={EXAMPLES[kind]}
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
      )}
      <NumberInput
        size="xs"
        className={css.factor}
        aria-label="Factor of its time; 0 removes the work"
        title="Factor of its time; 0 removes the work"
        prefix="× "
        min={0}
        max={100}
        step={0.1}
        value={factor}
        onChange={setFactor}
      />
      <Button type="submit" size="compact-sm" disabled={!isReady}>
        Add
      </Button>
    </form>
  )
}
