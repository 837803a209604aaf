// Details of the selected event.
import { ActionIcon, Button } from '@mantine/core'
import { Fragment, useState } from 'react'
import type { Query } from '../../api/client'
import type { Catalog, ClockInfo, Figure, Profile } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { allocationRange } from '../../lib/companions'
import { shortenMiddle } from '../../lib/names'
import { addressText } from '../../lib/profiles'
import { CollectivePeers, type PeerCall } from '../../parts/collectivePeers'
import { useCompanions } from '../../state/companions'
import { useView } from '../../state/data'
import { usePrefs } from '../../state/prefs'
import { tableOf } from '../../state/rowHighlight'
import type { Values } from '../../state/tensorboardHash'
import { openView, openViewOfProfile } from '../../state/urlState'
import { Card, CopyIconButton, Placeholder } from '../../widgets/basics'
import { FigureList } from '../../widgets/figures'
import { CloseIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import { StackFrames } from '../../widgets/stack'
import { ArrowList } from './arrowList'
import { EventTensors } from './eventTensors'
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
  /** To an event that belongs to this one. */
  onGo: (event: number, at: Range) => void
  onClose: () => void
  /** Another profile than the open one: views of that one would not show it. */
  isElsewhere?: boolean
  /** To the same collective of another worker; absent: that worker is opened alone. */
  onPartner?: (partner: PeerCall) => void
}) {
  const { event, base, catalog, profile, onGo, onClose, isElsewhere = false, onPartner } = props
  const prefs = usePrefs()
  const resource = useView('events', { ...base, event })
  const payloads = resource.data?.payloads ?? {}
  const blocks = Object.entries(payloads).flatMap(([key, payload]) =>
    payload.kind === 'figures' ? { key, payload } : [],
  )
  const main = blocks.find((block) => block.key === 'event')?.payload
  const isCollective = blocks.some((block) => block.key === 'collective')
  const launched = blocks.find((block) => block.key === 'launched')?.payload
  const name = String(main?.figures.find((figure) => figure.metric.key === 'name')?.value ?? `Event ${event}`)
  const kind = String(main?.figures.find((figure) => figure.metric.key === 'kind')?.value ?? '')
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
            <Button
              size="compact-xs"
              variant="default"
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
            </Button>
          )}
          {at && <EventAllocations catalog={catalog} profile={profile} at={at} />}
          <CopyIconButton text={name} label="Copy name" />
          <ActionIcon size="sm" variant="subtle" color="gray" aria-label="Close details" onClick={onClose}>
            <CloseIcon />
          </ActionIcon>
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
                  <StackFrames key={figure.metric.key} stack={String(figure.value ?? '')} editor={prefs.editor} />
                ))
              ) : (
                <FigureList
                  exact={key !== 'same_name'}
                  figures={key === 'event' ? factsOf(payload.figures, isLong) : withoutNumber(payload.figures)}
                />
              )}
            </div>
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

/** Event ids are internal. */
const withoutNumber = (figures: readonly Figure[]) => figures.filter(({ metric }) => metric.key !== 'event')

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

/** A button per overlapping snapshot. */
function EventAllocations({ catalog, profile, at }: { catalog: Catalog; profile: Profile; at: Range }) {
  const [wanted, setWanted] = useState('')
  const found = useCompanions(catalog, profile, wanted)
  return found.map(({ address, profile: there }) => {
    const key = JSON.stringify(address)
    const name = found.length > 1 ? ` of ${address.worker}` : ''
    if (!there) {
      return (
        <Button
          key={key}
          size="compact-xs"
          variant="default"
          loading={wanted === key}
          title={`Reads ${addressText(address)} and checks whether both were recorded together`}
          onClick={() => setWanted(key)}
        >
          Read the snapshot{name}
        </Button>
      )
    }
    if (!profile.clock || !there.clock) return null
    const state = blocksState(at, profile.clock, there.clock)
    if (Number(state.to_ns) < 0 || Number(state.from_ns) > there.clock.length_ns) return null
    return (
      <Button
        key={key}
        size="compact-xs"
        variant="default"
        title={`In ${addressText(address)}: blocks allocated on any thread during this event`}
        onClick={() => openViewOfProfile({ ...address }, 'allocations', state)}
      >
        Blocks in the snapshot{name}
      </Button>
    )
  })
}
