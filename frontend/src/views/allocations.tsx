// Memory of a snapshot: what its peak consists of, its history as curves and bands, and the tables of a moment and a part.
import { Button } from '@mantine/core'
import { memo, useMemo } from 'react'
import type { Query } from '../api/client'
import type { Profile, Table, View } from '../api/payloads'
import { translated } from '../lib/beside'
import type { Row } from '../lib/pages'
import type { Beside } from '../state/beside'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setPrefs, usePrefs } from '../state/prefs'
import { setRoute, useRoute } from '../state/route'
import { Bones, Card, useCopied } from '../widgets/basics'
import { BreakdownBar } from '../widgets/breakdown'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList, Sentence } from '../widgets/notices'
import { EditorSetting, StackFrames } from '../widgets/stack'
import { rowText } from '../widgets/tableRow'
import { BesideCard } from './parts/beside'
import { BlockPanel } from './parts/blockPanel'
import { DevicePicker } from './parts/devicePicker'
import { ViewFrame } from './parts/frame'
import { HeadlineCard, Say } from './parts/headline'
import { HistoryCard } from './parts/historyCard'
import { pick } from './parts/pick'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import textCss from '../widgets/text.module.css'
import css from './allocations.module.css'
import frameCss from './parts/frame.module.css'
import rowDetailCss from './parts/rowDetail.module.css'

const STACK = 'allocation_stack'
/** Steps, and times at which memory ran out, that are marked at most. */
const MOST_MARKS = 1000

/** Room around a moment when the timeline opens at it, in ns. */
const AROUND_NS = 100_000

/** Where the timeline of the trace opens: at the moment that is looked at, else where both recordings begin to overlap. */
function inTrace(profile: Profile, view: View, beside: Beside): { view: string; params: Record<string, string> } {
  const [here, there] = [profile.clock, beside.profile?.clock]
  const moment = pick(view, 'moment', 'figures')?.figures.find(({ metric }) => metric.key === 'event_ns')?.value
  if (!here || !there || typeof moment !== 'number') return { view: 'timeline', params: {} }
  const at = translated(moment, here, there)
  if (at < 0 || at > there.length_ns) return { view: 'timeline', params: {} }
  return {
    view: 'timeline',
    params: { start_ns: String(Math.max(0, Math.round(at - AROUND_NS))), end_ns: String(Math.round(at + AROUND_NS)) },
  }
}

export function Allocations({ base: asked, catalog, profile }: ViewProps) {
  const route = useRoute()
  const { device = '', at = '' } = route
  const { run, worker, span } = asked
  const base = useMemo<Query>(() => ({ run, worker, span, device }), [run, worker, span, device])
  const query = useMemo<Query>(() => ({ ...base, at, limit: MOST_MARKS }), [base, at])
  const resource = useView('allocations', query)
  const block = route.block === undefined ? null : Number(route.block)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={520} />}>
        {(view) => (
          <div className={layoutCss.column}>
            <Top view={view} />
            <Findings view={view} />
            {at !== '' && <Moment view={view} />}
            <HistoryCard view={view} base={base} />
            {block !== null && Number.isSafeInteger(block) && (
              <BlockPanel base={base} block={block} onClose={() => setRoute({ block: '' })} />
            )}
            <Categories view={view} />
            <Notes view={view} />
            <BesideCard
              catalog={catalog}
              profile={profile}
              label="Show in the timeline"
              target={(beside) => inTrace(profile, view, beside)}
            />
          </div>
        )}
      </ViewFrame>
      <Tables base={base} hasOoms={Boolean(resource.data && pick(resource.data, 'oom_events', 'table')?.total_rows)} />
    </div>
  )
}

const Top = memo(({ view }: { view: View }) => {
  const summary = pick(view, 'summary', 'figures')
  const devices = pick(view, 'devices', 'figures')
  const answer = pick(view, 'answer', 'notices')?.notices ?? []
  return (
    <>
      {summary && (
        <HeadlineCard className={css.head} label={summary.title} below>
          {answer.map((notice) => (
            <Say key={notice.rule} severity={notice.severity}>
              <Sentence notice={notice} text={notice.text} />
            </Say>
          ))}
          <div className={css.numbers}>
            {devices && (
              <DevicePicker
                devices={devices}
                chosen={summary.title}
                cleared={{ from: '', to: '', from_ns: '', to_ns: '', at: '', block: '', where: '', row: '' }}
              />
            )}
            <Headline figures={summary.figures} alarms={new Map()} />
          </div>
        </HeadlineCard>
      )}
    </>
  )
})

const Findings = memo(({ view }: { view: View }) => {
  const found = pick(view, 'advice', 'notices')
  if (!found || found.notices.length === 0) return null
  return (
    <Card title={found.title}>
      <NoticeList notices={found.notices} onLink={followLink} none="" />
    </Card>
  )
})

/** What is allocated at the moment, by what it is for. */
const Categories = memo(({ view }: { view: View }) => {
  const bar = pick(view, 'held_categories', 'breakdown')
  return (
    bar && (
      <Card title={bar.title}>
        <BreakdownBar payload={bar} onLink={followLink} />
      </Card>
    )
  )
})

/** What was held at the moment that is looked at. */
function Moment({ view }: { view: View }) {
  const moment = pick(view, 'moment', 'figures')
  return (
    moment && (
      <Card
        title={moment.title}
        className={css.head}
        actions={
          <Button size="compact-xs" variant="default" onClick={() => setRoute({ at: '', row: '' }, true)}>
            Back to the peak
          </Button>
        }
      >
        <Headline figures={moment.figures.filter(({ value }) => value !== null)} alarms={new Map()} />
      </Card>
    )
  )
}

const Notes = memo(({ view }: { view: View }) => {
  const notes = pick(view, 'data_quality', 'notices')
  const settings = pick(view, 'settings', 'figures')
  const hasNotes = (notes?.notices.length ?? 0) > 0
  const hasSettings = (settings?.figures.length ?? 0) > 0
  if (!hasNotes && !hasSettings) return null
  return (
    <div className={css.notes}>
      {hasNotes && notes && (
        <Card title={notes.title}>
          <NoticeList notices={notes.notices} onLink={followLink} none="" />
        </Card>
      )}
      {hasSettings && settings && (
        <Card title={settings.title}>
          <FigureList figures={settings.figures} />
        </Card>
      )}
    </div>
  )
})

const BLOCKS = 'held_blocks'
const WINDOW = ['from', 'to', 'from_ns', 'to_ns'] as const

function Tables({ base, hasOoms }: { base: Query; hasOoms: boolean }) {
  const route = useRoute()
  const { at = '' } = route
  // The other tables are about a moment, not about what is in sight.
  const window = route.group === BLOCKS ? WINDOW.map((key) => route[key] ?? '').join(' ') : ''
  const query = useMemo<Query>(() => {
    const values = window.split(' ')
    return { ...base, at, ...Object.fromEntries(WINDOW.map((key, i) => [key, values[i] ?? ''])) }
  }, [base, at, window])
  const groups = useMemo<Group[]>(
    () => [
      {
        table: 'held_stacks',
        label: at ? `Allocated after event ${Number(at).toLocaleString('en-US')}` : 'Allocated at the peak',
        filters: ['allocation_line'],
      },
      { table: BLOCKS, label: 'Blocks' },
      ...(hasOoms ? [{ table: 'oom_events', label: 'Out of memory', filters: ['allocation_line'] }] : []),
    ],
    [at, hasOoms],
  )
  return (
    <TableSection
      view="allocations"
      base={query}
      groups={groups}
      below
      placeholder="Search lines, text or /regex/"
      detail={(row, table) => <Detail row={row} table={table} />}
    />
  )
}

/** An opened row: its whole stack, and the way to its band. */
function Detail({ row, table }: { row: Row; table: Table }) {
  const [copied, copy] = useCopied()
  const prefs = usePrefs()
  const stack = row[STACK]
  const { block_row: block, event_number: event } = row
  return (
    <div className={rowDetailCss.grid}>
      <div data-testid="detail-name" className={rowDetailCss.name}>
        <span className={textCss.row}>
          {typeof block === 'number' && (
            <Button size="compact-xs" variant="default" onClick={() => setRoute({ block: String(block) }, true)}>
              Keep its band
            </Button>
          )}
          {typeof event === 'number' && (
            <Button size="compact-xs" variant="default" onClick={() => setRoute({ at: String(event) }, true)}>
              Look at this moment
            </Button>
          )}
          <Button size="compact-xs" variant="default" onClick={() => copy(rowText(row, table.columns))}>
            {copied ? 'Copied' : 'Copy row'}
          </Button>
          <EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />
        </span>
      </div>
      {typeof stack === 'string' && stack !== '' ? (
        <div className={css.stack}>
          <StackFrames stack={stack} editor={prefs.editor} />
        </div>
      ) : (
        <p className={textCss.none}>The snapshot holds no stack here.</p>
      )}
    </div>
  )
}
