// A page of one answer and its tables.

import type { ReactNode } from 'react'
import type { Query } from '../api/client'
import type { Table, View } from '../api/payloads'
import type { Row } from '../lib/tableRows'
import { type Resource, useView } from '../state/data'
import { FigureList, Headline } from '../widgets/figures'
import { rowFigures, StackBlock } from './detailBlock'
import { Answers, evidenceOf, HeadlineCard, NoticesCard, todoOf } from './headlineCard'
import { payloadByName } from './payloadByName'
import { TablePage } from './tablePage'
import type { Group } from './tableSection'
import layoutCss from '../widgets/layout.module.css'
import css from './pageHead.module.css'

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
  bones?: (resource: Resource<View>) => ReactNode
}) {
  const { id, query, groups, placeholder, detail, action, isDone, bones } = props
  const resource = useView(id, query)
  return (
    <TablePage
      view={id}
      resource={resource}
      base={query}
      bones={bones?.(resource) ?? 220}
      top={(view) => <Top view={view} action={action} isDone={isDone} />}
      waits
      groups={groups}
      placeholder={placeholder}
      detail={detail}
    />
  )
}

function Top({ view, action, isDone = false }: { view: View; action?: ReactNode; isDone?: boolean }) {
  const figures = payloadByName(view, 'headline', 'figures') ?? payloadByName(view, 'summary', 'figures')
  return (
    <div className={layoutCss.column}>
      {figures && (
        <HeadlineCard label={figures.title} className={css.head} below>
          <Answers
            view={view}
            add={(notice) => (
              <>
                {!isDone && todoOf(notice)}
                {evidenceOf(notice)}
              </>
            )}
          />
          {action}
          <Headline figures={figures.figures} />
        </HeadlineCard>
      )}
      <NoticesCard view={view} />
    </div>
  )
}

export function RowFacts({ row, table, children }: { row: Row; table: Table; children?: ReactNode }) {
  const stack = row[STACK]
  const figures = rowFigures(row, table, ({ metric: { key } }) => key !== STACK && (row[key] ?? null) !== null)
  return (
    <div className={css.detail}>
      <span>{children}</span>
      <FigureList figures={figures} />
      {stack && <StackBlock title="Call stack" stacks={[String(stack)]} />}
    </div>
  )
}
