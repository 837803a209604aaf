// Details of the selected event.

import { Button } from '@mantine/core'
import { Fragment, useState } from 'react'
import type { Query } from '../../api/client'
import type { Catalog, ClockInfo, Figure, Profile } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { allocationRange } from '../../lib/companions'
import { shortFrame } from '../../lib/frames'
import { shortenMiddle } from '../../lib/names'
import { addressText } from '../../lib/profiles'
import { CollectivePeers, type PeerCall } from '../../parts/collectivePeers'
import { figureValue } from '../../parts/payloadByName'
import { StackFrames } from '../../parts/stack'
import { useCompanions } from '../../state/companions'
import { useView } from '../../state/data'
import { tableOf } from '../../state/rowHighlight'
import type { Values } from '../../state/tensorboardHash'
import { openView, openViewOfProfile } from '../../state/urlState'
import { Card, CloseButton, CopyIconButton, Placeholder, SmallButton } from '../../widgets/basics'
import { FigureList } from '../../widgets/figures'
import { ProblemPanel } from '../../widgets/problem'
import { ArrowList } from './arrowList'
import { EventTensors } from './eventTensors'
import { PathFacts } from './pathMarks'
import frameCss from '../../parts/viewFrame.module.css'
import textCss from '../../widgets/text.module.css'
import css from './eventPanel.module.css'

/** Longer names are shortened in the title and listed as a fact. */
const LONGEST = 160
/** Categories of CPU events that may allocate. */
const ALLOCATES = new Set(['operator', 'annotation', 'python', 'module', 'runtime'])

export function EventPanel(props: {
  event: number
  base: Query
  catalog: Catalog
  profile: Profile
  onGo: (event: number, at: Range) => void
  onClose: () => void
  /** Another profile than the open one: views of that one would not show it. */
  isElsewhere?: boolean
  /** To the same collective of another worker; absent: that worker is opened alone. */
  onPartner?: (partner: PeerCall) => void
}) {
  const { event, base, catalog, profile, onGo, onClose, isElsewhere = false, onPartner } = props
  const resource = useView('events', { ...base, event })
  const payloads = resource.data?.payloads ?? {}
  const blocks = Object.entries(payloads).flatMap(([key, payload]) =>
    payload.kind === 'figures' ? { key, payload } : [],
  )
  const main = blocks.find((block) => block.key === 'event')?.payload
  const isCollective = blocks.some((block) => block.key === 'collective')
  const launched = blocks.find((block) => block.key === 'launched')?.payload
  const name = String(figureValue(main, 'name') ?? `Event ${event}`)
  const kind = String(figureValue(main, 'kind') ?? '')
  const home = tableOf(name, kind)
  const at = main && ALLOCATES.has(kind) ? placeOf(main.figures) : null
  const isLong = name.length > LONGEST
  return (
    <Card
      className={css.event}
      label="Event details"
      title={
        <span className={textCss.mono} title={name}>
          {isLong ? shortenMiddle(name, LONGEST) : name}
        </span>
      }
      subtitle={main?.subtitle}
      actions={
        <span className={textCss.row}>
          {home && (
            <SmallButton
              onClick={() =>
                isElsewhere
                  ? openViewOfProfile(
                      { run: profile.run, worker: profile.worker, span: profile.span },
                      home.view,
                      home.state,
                    )
                  : openView(home.view, home.state)
              }
            >
              Show in {home.label}
            </SmallButton>
          )}
          {at && <EventAllocations catalog={catalog} profile={profile} at={at} />}
          <CopyIconButton text={name} label="Copy name" />
          <CloseButton label="Close details" onClick={onClose} />
        </span>
      }
    >
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!resource.data && !resource.problem && <Placeholder height={120} />}
      <div className={resource.busy ? `${css.grid} ${frameCss.stale}` : css.grid}>
        {blocks.map(({ key, payload }) => (
          <Fragment key={key}>
            <div className={key === 'stack' ? css.wide : undefined} data-testid={`event-${key}`}>
              <h3>
                {key === 'event' ? 'Event' : key === 'same_name' ? 'All with this name' : payload.title}
                {key === 'stack' && payload.subtitle && <small>{payload.subtitle}</small>}
                {key !== 'event' && <GoButton figures={payload.figures} title={payload.title} onGo={onGo} />}
              </h3>
              {key === 'stack' ? (
                payload.figures.map((figure) => (
                  <StackFrames key={figure.metric.key} stack={String(figure.value ?? '')} />
                ))
              ) : (
                <FigureList
                  exact={key !== 'same_name'}
                  figures={key === 'event' ? factsOf(payload.figures, isLong) : withoutNumber(payload.figures)}
                />
              )}
            </div>
            {key === 'event' && <PathFacts event={event} base={base} />}
            {key === 'event' && main && isCollective && (
              <div className={css.related}>
                <CollectivePeers
                  key={event}
                  base={base}
                  catalog={catalog}
                  profile={profile}
                  figures={main.figures}
                  launched={launched?.figures ?? []}
                  onPartner={onPartner}
                />
              </div>
            )}
          </Fragment>
        ))}
        <ArrowList event={event} base={base} onGo={onGo} />
        {main && (
          <EventTensors
            key={event}
            base={base}
            catalog={catalog}
            profile={profile}
            figures={main.figures}
            onGo={onGo}
          />
        )}
      </div>
    </Card>
  )
}

/** Event ids are internal; lines are shortened, as the call stack has their full paths. */
const withoutNumber = (figures: readonly Figure[]) =>
  figures
    .filter(({ metric }) => metric.key !== 'event')
    .map((figure) =>
      figure.metric.key === 'code_line' ? { ...figure, value: shortFrame(String(figure.value)) } : figure,
    )

function factsOf(figures: readonly Figure[], isLong: boolean): Figure[] {
  const facts = withoutNumber(figures)
  const others = facts.filter(({ metric }) => metric.key !== 'name')
  return isLong ? [...others, ...facts.filter((fact) => !others.includes(fact))] : others
}

/** The event of figures, and its time; null if there is none. */
function placeOf(figures: readonly Figure[]): (Range & { event: number }) | null {
  const [event, start, dur] = ['event', 'start_ns', 'dur_ns'].map(
    (key) => figures.find(({ metric }) => metric.key === key)?.value,
  )
  if (typeof event !== 'number' || typeof start !== 'number' || typeof dur !== 'number') return null
  return { event, start, end: start + dur }
}

/** The way to an event that belongs to the selected one; nothing for figures that are not about one event. */
function GoButton(props: { figures: Figure[]; title: string; onGo: (event: number, at: Range) => void }) {
  const { figures, title, onGo } = props
  const at = placeOf(figures)
  if (at === null) return null
  return (
    <Button size="compact-xs" variant="subtle" onClick={() => onGo(at.event, at)}>
      Go to {title.toLowerCase()}
    </Button>
  )
}

/** URL state of the snapshot's blocks table, limited to the event's time. */
function blocksState(at: Range, trace: ClockInfo, snapshot: ClockInfo): Values {
  const [first, last] = allocationRange(at.start, at.end, trace, snapshot).map(String)
  return { group: 'held_blocks', axis: 'time', from_ns: first, to_ns: last, min_begin_ns: first, max_begin_ns: last }
}

function EventAllocations({ catalog, profile, at }: { catalog: Catalog; profile: Profile; at: Range }) {
  const [wanted, setWanted] = useState('')
  const found = useCompanions(catalog, profile, wanted)
  return found.map(({ address, profile: there }) => {
    const key = JSON.stringify(address)
    const name = found.length > 1 ? ` of ${address.worker}` : ''
    if (!there) {
      return (
        <SmallButton
          key={key}
          loading={wanted === key}
          title={`Reads ${addressText(address)} and checks whether both were recorded together`}
          onClick={() => setWanted(key)}
        >
          Read the snapshot{name}
        </SmallButton>
      )
    }
    if (!profile.clock || !there.clock) return null
    const state = blocksState(at, profile.clock, there.clock)
    if (Number(state.to_ns) < 0 || Number(state.from_ns) > there.clock.length_ns) return null
    return (
      <SmallButton
        key={key}
        title={`In ${addressText(address)}: blocks allocated on any thread during this event`}
        onClick={() => openViewOfProfile({ ...address }, 'allocations', state)}
      >
        Blocks in the snapshot{name}
      </SmallButton>
    )
  })
}
