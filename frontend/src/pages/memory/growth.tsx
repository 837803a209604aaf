// Growth: stacks that retain more after each step.

import { Button } from '@mantine/core'
import { useEffect } from 'react'
import type { Series, Table, View } from '../../api/payloads'
import { format } from '../../lib/format'
import type { Row } from '../../lib/tableRows'
import { rowFigures, StackBlock } from '../../parts/detailBlock'
import { Answers, HeadlineCard } from '../../parts/headlineCard'
import type { PageProps } from '../../parts/page'
import { payloadByName } from '../../parts/payloadByName'
import { TablePage } from '../../parts/tablePage'
import type { Group } from '../../parts/tableSection'
import { useQuery, useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import { Chart } from '../../widgets/chart'
import { FigureList, Headline } from '../../widgets/figures'
import { DevicePicker } from './devicePicker'
import { EventField } from './snapshotBar'
import css from '../../parts/pageHead.module.css'
import layoutCss from '../../widgets/layout.module.css'
import textCss from '../../widgets/text.module.css'

const STEPS = 'growth_steps'
/** Columns that tell rows apart or order them. */
const INTERNAL = ['allocation_stack', 'stack_number', 'block_row', 'growth_score', 'difference_size_bytes']
const STACKS = ['growth_stacks', 'changed_stacks']
const OF_STACK = ['changed_stacks', 'changed_blocks']
const GROUPS: Group[] = [
  {
    table: 'growth_stacks',
    label: 'Step by step',
    nameStyle: 'frame',
    filters: ['allocation_line', 'stack_number'],
  },
  {
    table: 'changed_stacks',
    label: 'Two events',
    nameStyle: 'frame',
    filters: ['allocation_line', 'stack_number', 'memory_change'],
  },
  {
    table: 'changed_blocks',
    label: 'Blocks',
    nameStyle: 'frame',
    filters: ['allocation_line', 'stack_number', 'block_change'],
  },
  { table: STEPS, label: 'Steps', filters: [], nameStyle: 'plain' },
]

export function Growth({ base }: PageProps) {
  const route = useRoute()
  const { device = '', at = '', against = '', group = STACKS[0] } = route
  const stack = STACKS.includes(group) && route.row ? route.row : (route.stack ?? '')
  // With a stack selected, changes are filtered by it; the filter can be removed.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a filter that was taken away stays away
  useEffect(() => {
    if (OF_STACK.includes(group) && route.stack && !route.where) setRoute({ where: `stack_number:${route.stack}` })
  }, [group, route.stack])
  const moments = useQuery(base, { device, at, against })
  const query = useQuery(moments, { stack })
  const resource = useView('growth', query)
  // Without steps, only events can be compared.
  const hasSteps = resource.data ? (payloadByName(resource.data, 'summary', 'figures')?.figures ?? []).length > 0 : true
  const compares = group !== STACKS[0] || !hasSteps
  const filters = () => compares && resource.data && <Moments view={resource.data} />
  return (
    <TablePage
      view="growth"
      resource={resource}
      base={moments}
      bones={300}
      action={
        device || at || against || stack ? (
          <Button size="xs" onClick={() => setRoute({ device: '', at: '', against: '', stack: '', row: '' }, true)}>
            Reset to the default events
          </Button>
        ) : undefined
      }
      top={(view) => <Top view={view} chosen={stack !== ''} />}
      groups={hasSteps ? GROUPS : GROUPS.slice(1, 3)}
      filters={filters}
      placeholder="Search lines, text or /regex/"
      detail={(row, table) => <Detail row={row} table={table} />}
    />
  )
}

function Top({ view, chosen }: { view: View; chosen: boolean }) {
  const summary = payloadByName(view, 'summary', 'figures')
  const devices = payloadByName(view, 'devices', 'figures')
  const live = payloadByName(view, 'live', 'series')
  if (!summary) return null
  return (
    <div className={layoutCss.column}>
      <HeadlineCard label={summary.title} className={css.head} below>
        <Answers view={view} />
        <span className={css.figures}>
          {devices && (
            <DevicePicker
              devices={devices}
              chosen={summary.title}
              cleared={{ at: '', against: '', stack: '', row: '' }}
            />
          )}
          <Headline figures={summary.figures} />
        </span>
      </HeadlineCard>
      {live && <LiveCard live={live} chosen={chosen} />}
    </div>
  )
}

function LiveCard({ live, chosen }: { live: Series; chosen: boolean }) {
  return (
    <Card
      title={live.title}
      subtitle={live.subtitle}
      actions={
        chosen ? (
          <SmallButton onClick={() => setRoute({ stack: '', row: '' }, true)}>Largest growth</SmallButton>
        ) : undefined
      }
    >
      <Chart series={live} height={150} compact />
    </Card>
  )
}

function Moments({ view }: { view: View }) {
  const { at = '', against = '' } = useRoute()
  const [from, to] =
    payloadByName(view, 'compared', 'figures')?.figures.map((figure) => String(figure.value ?? '')) ?? []
  return (
    <>
      <EventField label="From" name="against" value={against} usual={from ?? ''} />
      <EventField label="To" name="at" value={at} usual={to ?? ''} />
    </>
  )
}

function Detail({ row, table }: { row: Row; table: Table }) {
  const stack = row.allocation_stack
  const number = row.stack_number
  const event = table.name === STEPS ? row.event_number : null
  // Figures that the row omits.
  const extra = rowFigures(row, table, ({ metric, hidden }) => hidden && !INTERNAL.includes(metric.key))
  return (
    <div className={css.detail}>
      <span className={textCss.row}>
        {typeof event === 'number' && (
          <>
            <SmallButton onClick={() => compare({ against: String(event) })}>Compare from here</SmallButton>
            <SmallButton onClick={() => compare({ at: String(event) })}>Compare to here</SmallButton>
          </>
        )}
        {typeof number === 'number' && table.name !== 'changed_blocks' && (
          <SmallButton
            onClick={() => setRoute({ group: 'changed_blocks', where: `stack_number:${number}`, row: '' }, true)}
          >
            Show blocks
          </SmallButton>
        )}
      </span>
      {extra.length > 0 && <FigureList figures={extra} exact />}
      {typeof stack === 'string' && (
        <StackBlock title="Stack" small={format(stack.split(';').length, 'count')} stacks={[stack]} />
      )}
    </div>
  )
}

const compare = (change: Record<string, string>) => setRoute({ ...change, group: 'changed_stacks', row: '' }, true)
