// A page of one answer and its tables.
import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Query } from '../api/client'
import type { Notice, Table, View } from '../api/payloads'
import type { Row } from '../lib/tableRows'
import { type Resource, useView } from '../state/data'
import { followLink } from '../state/links'
import { setPrefs, usePrefs } from '../state/prefs'
import { Card, Placeholder } from '../widgets/basics'
import { FigureList, Headline } from '../widgets/figures'
import { NoticeList, Sentence } from '../widgets/notices'
import { EditorSetting, StackFrames } from '../widgets/stack'
import { DetailBlock } from './detailBlock'
import { HeadlineCard, HeadlineSentence } from './headlineCard'
import { payloadByName } from './payloadByName'
import { type Group, TableSection } from './tableSection'
import { ViewFrame } from './viewFrame'
import layoutCss from '../widgets/layout.module.css'
import css from './pageHead.module.css'
import frameCss from './viewFrame.module.css'

/** Shown in a way of its own. */
const STACK = 'recorded_stack'

export function AnswerPage(props: {
  id: string
  query: Query
  groups: Group[]
  placeholder: string
  detail: (row: Row, table: Table) => ReactNode
  action?: ReactNode
  /** The advised action is done. */
  isDone?: boolean
  /** Shown while loading. */
  bones?: (resource: Resource<View>) => ReactNode
}) {
  const { id, query, groups, placeholder, detail, action, isDone, bones } = props
  const resource = useView(id, query)
  return (
    <div className={frameCss.page}>
      <ViewFrame resource={resource} bones={bones?.(resource) ?? <Placeholder height={220} />}>
        {(view) => <Top view={view} action={action} isDone={isDone} />}
      </ViewFrame>
      {resource.data && (
        <TableSection view={id} base={query} groups={groups} placeholder={placeholder} detail={detail} />
      )}
    </div>
  )
}

function Top({ view, action, isDone = false }: { view: View; action?: ReactNode; isDone?: boolean }) {
  const figures = payloadByName(view, 'headline', 'figures') ?? payloadByName(view, 'summary', 'figures')
  const answer = payloadByName(view, 'answer', 'notices')?.notices ?? []
  const notes = payloadByName(view, 'data_quality', 'notices')
  return (
    <div className={layoutCss.column}>
      {figures && (
        <HeadlineCard label={figures.title} className={css.head} below>
          {answer.map((notice) => (
            <Answer key={notice.rule} notice={notice} isDone={isDone} />
          ))}
          {action}
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

function Answer({ notice, isDone }: { notice: Notice; isDone: boolean }) {
  const { evidence } = notice
  const todo = isDone ? '' : notice.todo
  return (
    <HeadlineSentence severity={notice.severity}>
      <Sentence notice={notice} text={notice.text} />
      {todo && ' '}
      {todo && <Sentence notice={notice} text={todo} />}{' '}
      {evidence && (
        <Button size="compact-xs" variant="default" onClick={() => followLink(evidence)}>
          {evidence.text}
        </Button>
      )}
    </HeadlineSentence>
  )
}

export function RowFacts({ row, table, children }: { row: Row; table: Table; children?: ReactNode }) {
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
