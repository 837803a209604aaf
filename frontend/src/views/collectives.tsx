// Collectives of a flight recorder: the calls of one rank, and those of all ranks: who is missing, who differs, who waits.
import { Button } from '@mantine/core'
import { type ReactNode, useMemo } from 'react'
import type { Query } from '../api/client'
import type { Notice, Table, View } from '../api/payloads'
import type { Row } from '../lib/pages'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { setPrefs, usePrefs } from '../state/prefs'
import { openElsewhere } from '../state/route'
import { Bones, Card } from '../widgets/basics'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList, Sentence } from '../widgets/notices'
import { EditorSetting, StackFrames } from '../widgets/stack'
import { DetailBlock } from './parts/detailBlock'
import { ViewFrame } from './parts/frame'
import { HeadlineCard, Say } from './parts/headline'
import { pick } from './parts/pick'
import { type Group, TableSection } from './parts/tableSection'
import type { ViewProps } from './view'
import layoutCss from '../widgets/layout.module.css'
import frameCss from './parts/frame.module.css'
import css from './parts/snapshotPage.module.css'

const OF_RANK: Group[] = [
  { table: 'recorded_calls', label: 'Calls' },
  { table: 'group_progress', label: 'Process groups', filters: [] },
]
const OF_ALL: Group[] = [
  { table: 'matched_collectives', label: 'Collectives' },
  { table: 'rank_progress', label: 'Ranks', filters: [], nameStyle: 'plain' },
]
/** Shown in a way of its own. */
const STACK = 'recorded_stack'

export function Collectives({ base }: ViewProps) {
  return (
    <Page id="collectives" query={base} groups={OF_RANK} detail={(row, table) => <Detail row={row} table={table} />} />
  )
}

export function RanksCollectives({ base, profile }: ViewProps) {
  // The view is about all workers: which one is open does not matter to the answer.
  const query = useMemo<Query>(() => ({ ...base, worker: '' }), [base])
  const place = { run: profile.run, span: profile.span }
  const detail = (row: Row, table: Table) => (
    <Detail row={row} table={table}>
      {row.worker && (
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => openElsewhere({ ...place, worker: String(row.worker) }, 'collectives', {})}
        >
          Open its calls
        </Button>
      )}
    </Detail>
  )
  return <Page id="ranks_collectives" query={query} groups={OF_ALL} detail={detail} />
}

function Page(props: { id: string; query: Query; groups: Group[]; detail: (row: Row, table: Table) => ReactNode }) {
  const { id, query, groups, detail } = props
  const resource = useView(id, query)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={<Bones height={220} />}>
        {(view) => <Top view={view} />}
      </ViewFrame>
      {resource.data && (
        <TableSection
          view={id}
          base={query}
          groups={groups}
          placeholder="Search collectives, text or /regex/"
          detail={detail}
        />
      )}
    </div>
  )
}

function Top({ view }: { view: View }) {
  const figures = pick(view, 'headline', 'figures') ?? pick(view, 'summary', 'figures')
  const answer = pick(view, 'answer', 'notices')?.notices ?? []
  const notes = pick(view, 'data_quality', 'notices')
  return (
    <div className={layoutCss.column}>
      {figures && (
        <HeadlineCard label={figures.title} className={css.head} below>
          {answer.map((notice) => (
            <Answer key={notice.rule} notice={notice} />
          ))}
          <Headline figures={figures.figures} alarms={new Map()} />
        </HeadlineCard>
      )}
      {notes && (
        <Card title={notes.title}>
          <NoticeList notices={notes.notices} onLink={followLink} none="" />
        </Card>
      )}
    </div>
  )
}

function Answer({ notice }: { notice: Notice }) {
  const { evidence } = notice
  return (
    <Say severity={notice.severity}>
      <Sentence notice={notice} text={notice.text} />
      {notice.todo && ' '}
      {notice.todo && <Sentence notice={notice} text={notice.todo} />}{' '}
      {evidence && (
        <Button size="compact-xs" variant="default" onClick={() => followLink(evidence)}>
          {evidence.text}
        </Button>
      )}
    </Say>
  )
}

function Detail({ row, table, children }: { row: Row; table: Table; children?: ReactNode }) {
  const prefs = usePrefs()
  const stack = row[STACK]
  const told = table.columns.filter(({ metric: { key } }) => key !== STACK && (row[key] ?? null) !== null)
  return (
    <div className={css.detail}>
      <span>{children}</span>
      <FigureList figures={told.map(({ metric }) => ({ metric, value: row[metric.key], note: '' }))} />
      {stack && (
        <DetailBlock
          title="Call stack"
          actions={<EditorSetting value={prefs.editor} onChange={(editor) => setPrefs({ editor })} />}
          wide
        >
          <StackFrames stack={String(stack)} editor={prefs.editor} />
        </DetailBlock>
      )}
    </div>
  )
}
