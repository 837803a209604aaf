// Kernels and copies: where device time goes.

import { Checkbox, Select, TextInput } from '@mantine/core'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Figure, Link, Metric, Scalar, Slice, Table, View } from '../../api/payloads'
import type { Row } from '../../lib/tableRows'
import { EventButton } from '../../parts/detailBlock'
import { SummaryCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { RowDetail } from '../../parts/rowDetail'
import { SimulateButton } from '../../parts/simulateButton'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useView } from '../../state/data'
import { followLink } from '../../state/links'
import { setRoute, useFilter, useRoute } from '../../state/urlState'
import { BreakdownBar, type OnLink } from '../../widgets/breakdown'
import { FigureList } from '../../widgets/figures'
import { TimelineIcon } from '../../widgets/icons'
import { Donuts } from './donuts'
import layoutCss from '../../widgets/layout.module.css'
import donutsCss from './donuts.module.css'

const SINGLE = 'kernel_rows'
/** `with`: a payload that must be present. */
const GROUPS: (Group & { with?: string })[] = [
  { table: 'kernels', label: 'By kernel', filters: ['name', 'class'] },
  { table: 'kernels_by_type', label: 'By type', with: 'types', filters: ['kernel_type', 'core'], nameStyle: 'plain' },
  { table: 'kernels_by_type_shape', label: 'By shapes', with: 'types', filters: ['kernel_type'], nameStyle: 'plain' },
  { table: 'kernels_by_launch', label: 'By launch', filters: ['name', 'class'] },
  { table: SINGLE, label: 'Single kernels', with: 'cores', filters: ['name', 'step'] },
  { table: 'copies', label: 'Copies', filters: ['name', 'kind', 'direction'] },
]

const groupsOf = (view: View | undefined, chosen: string | undefined) =>
  GROUPS.filter((group) => !group.with || group.table === chosen || view?.payloads[group.with])

const hasColumn = (table: Table | null, key: string) => Boolean(table?.columns.some(({ metric }) => metric.key === key))

function ClassFilter({ parts }: { parts: readonly Slice[] }) {
  const [chosen, choose] = useFilter('class')
  const data = parts.map(({ metric }) => ({ value: metric.key, label: metric.title }))
  return (
    <Select
      size="sm"
      w={170}
      aria-label="Class of kernels"
      placeholder="All classes"
      data={chosen === '' || data.some(({ value }) => value === chosen) ? data : [...data, chosen]}
      value={chosen || null}
      onChange={(name) => choose(name ?? '')}
      clearable
    />
  )
}

const DEBOUNCE_MS = 300

/** Kernels of one step, of profiles that number it. */
function StepFilter() {
  const [chosen, choose] = useFilter('step')
  const [text, setText] = useState(chosen)
  const timer = useRef(0)
  useEffect(() => setText(chosen), [chosen])
  useEffect(() => () => window.clearTimeout(timer.current), [])
  return (
    <TextInput
      size="sm"
      w={80}
      aria-label="Step of kernels"
      placeholder="Step"
      value={text}
      onChange={(event) => {
        const step = event.currentTarget.value.trim()
        setText(step)
        window.clearTimeout(timer.current)
        timer.current = window.setTimeout(() => choose(step, false), DEBOUNCE_MS)
      }}
    />
  )
}

/** A slice filters the current table if it has the column, else the first. */
const followIn = (groups: readonly Group[], chosen: string | undefined) => (link: Link) => {
  const column = link.params.where?.split(':')[0] ?? ''
  const shown = groups.find((group) => group.table === chosen) ?? groups[0]
  const stays = 'group' in link.params || shown.filters?.includes(column)
  followLink(stays ? link : { ...link, params: { group: '', sort: '', cols: '', ...link.params } })
}

/** Communication may take most of the time: how the rest is spread shows without it. */
function Communication({ counts }: { counts: boolean }) {
  return (
    <Checkbox
      size="sm"
      label="Communication"
      checked={counts}
      onChange={() => setRoute({ communication: counts ? '0' : '', row: '' }, true)}
    />
  )
}

const IN_COLUMNS = 3

function Single({ row, table }: { row: Row; table: Table }) {
  const figures = table.columns.flatMap(({ metric }) => factOf(metric, row[metric.key] ?? null))
  const length = Math.ceil(figures.length / IN_COLUMNS)
  return (
    <div className={layoutCss.column}>
      <EventButton row={row} leftSection={<TimelineIcon />} />
      <div className={layoutCss.grid}>
        {Array.from({ length: IN_COLUMNS }, (_, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: columns never move
          <div className={layoutCss.span4} key={at}>
            <FigureList figures={figures.slice(at * length, (at + 1) * length)} exact />
          </div>
        ))}
      </div>
    </div>
  )
}

/** A fact as a figure; whole numbers under names of the profile's own mostly name something, and read as they were written. */
function factOf(metric: Metric, value: Scalar): Figure[] {
  if (metric.key === 'event' || value === null) return []
  const names = metric.unit === 'number' && Number.isInteger(value)
  return [names ? { metric: { ...metric, unit: 'text' }, value: String(value), note: '' } : { metric, value, note: '' }]
}

/** Classes as a bar, and the other shares on demand. */
function Shares({ view, onLink }: { view: View; onLink: OnLink }) {
  const { classes, ...others } = view.payloads
  return (
    <div className={donutsCss.shares}>
      {classes?.kind === 'breakdown' && classes.total > 0 && (
        <section aria-label={classes.title}>
          <BreakdownBar payload={classes} onLink={onLink} />
        </section>
      )}
      <Donuts payloads={others} onLink={onLink} />
    </div>
  )
}

export function Kernels({ base }: PageProps) {
  const { communication, group } = useRoute()
  const counts = communication !== '0'
  const asked: Query = useMemo(() => (counts ? base : { ...base, communication: 0 }), [base, counts])
  const resource = useView('kernels', asked)
  const donut = resource.data?.payloads.classes
  const classes = donut?.kind === 'breakdown' ? donut.parts : []
  const communicates = !counts || classes.some(({ metric }) => metric.key === 'communication')
  const groups = useMemo(() => groupsOf(resource.data ?? undefined, group), [resource.data, group])
  return (
    <TablePage
      view="kernels"
      resource={resource}
      base={asked}
      bones={200}
      top={(view) => (
        <SummaryCard view={view}>
          <Shares view={view} onLink={followIn(groups, group)} />
        </SummaryCard>
      )}
      groups={groups}
      nameStyle="kernel"
      filters={(table) => (
        <>
          {hasColumn(table, 'step') && <StepFilter />}
          {hasColumn(table, 'class') && <ClassFilter parts={classes} />}
          {communicates && <Communication counts={counts} />}
        </>
      )}
      placeholder="Search kernels, text or /regex/"
      detail={(row, table) =>
        table.name === SINGLE ? (
          <Single row={row} table={table} />
        ) : (
          <RowDetail
            row={row}
            table={table}
            base={base}
            actions={row.class !== undefined && <SimulateButton kind="kernel" name={row.name} />}
          />
        )
      }
    />
  )
}
