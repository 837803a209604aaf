// Summary of a marked time range.

import { Button } from '@mantine/core'
import { type ReactNode, useMemo, useState } from 'react'
import { type Query, windowUrl } from '../../api/client'
import type { View } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { counted, format } from '../../lib/format'
import { shortenMiddle } from '../../lib/names'
import { figureOf, numberOf, payloadByName } from '../../parts/payloadByName'
import { RowDetail } from '../../parts/rowDetail'
import { useView } from '../../state/data'
import { usePages } from '../../state/tablePages'
import { setRoute, useRoute } from '../../state/urlState'
import { Card, SmallButton } from '../../widgets/basics'
import { Switch } from '../../widgets/choice'
import { ProblemPanel } from '../../widgets/problem'
import { DataTable } from '../../widgets/table'
import textCss from '../../widgets/text.module.css'
import css from './rangePanel.module.css'
import panelsCss from './timeline.module.css'

interface Order {
  key: string
  desc: boolean
}

/** A track whose events alone are counted. */
export interface SummaryTrack {
  id: string
  title: string
}

function RangePanel(props: {
  range: Range
  isMarked: boolean
  track: SummaryTrack | null
  startedIn: SummaryTrack | null
  base: Query
  /** The timeline's search also filters this list. */
  search: string
  onShow: (range: Range) => void
  onClose: () => void
}) {
  const { range, isMarked, track, startedIn, base, search, onShow, onClose } = props
  const profile = JSON.stringify({ ...base, ...(track ? { track: track.id } : {}) })
  const asked: Query = useMemo(
    () => ({ ...JSON.parse(profile), start_ns: range.start, end_ns: range.end }),
    [profile, range.start, range.end],
  )
  const [order, setOrder] = useState<Order>({ key: '', desc: true })
  const [open, setOpen] = useState('')
  const { within } = useRoute()
  const resource = useView('range', { ...asked, search })
  const tabs = useMemo(() => (resource.data ? tabsOf(resource.data) : []), [resource.data])
  const tab = (tabs.find(({ value }) => value === within) ?? tabs[0])?.value ?? ''
  const isStreams = tab === STREAMS
  const query = useMemo(
    () => ({ sort: order.key, desc: order.desc, search, where: isStreams || !tab ? [] : [`range_group:${tab}`] }),
    [order, search, tab, isStreams],
  )
  const pages = usePages('range', isStreams ? 'range_streams' : 'range', asked, query, tab !== '')
  return (
    <Card
      className={css.range}
      title={`${track ? `${track.title}: ` : ''}${format(range.end - range.start, 'ns')} ${isMarked ? 'marked' : 'visible'}`}
      subtitle={resource.data ? <Devices view={resource.data} /> : undefined}
      actions={
        <span className={textCss.row}>
          {tabs.length > 1 && (
            <Switch
              label="Group of events"
              value={tab}
              options={tabs}
              onChange={(next) => {
                setRoute({ within: next })
                setOrder({ key: '', desc: true })
              }}
            />
          )}
          {isMarked && (track || startedIn) && (
            <SmallButton onClick={() => setRoute({ track: track || !startedIn ? '' : startedIn.id })}>
              {track || !startedIn ? 'All tracks' : `Only ${shortenMiddle(startedIn.title, 24)}`}
            </SmallButton>
          )}
          {isMarked && <SmallButton onClick={() => onShow(range)}>Zoom to range</SmallButton>}
          <Button size="compact-xs" variant="default" component="a" href={windowUrl(asked)} download>
            Export range
          </Button>
          <Button size="compact-xs" variant="subtle" onClick={onClose}>
            Clear
          </Button>
        </span>
      }
    >
      {resource.problem ? (
        <ProblemPanel problem={resource.problem} />
      ) : resource.data && tabs.length === 0 ? (
        <p className={textCss.none}>No event {search ? 'in the range matches the search' : 'in the range'}.</p>
      ) : (
        <DataTable
          pages={pages}
          query={query}
          onSort={(key, desc) => setOrder({ key, desc })}
          shown={null}
          nameStyle="kernel"
          open={open}
          onOpen={isStreams ? undefined : setOpen}
          detail={
            isStreams
              ? undefined
              : (row, table) => <RowDetail row={row} table={table} base={{ ...asked, search }} stacks={false} />
          }
          label="Events in the range"
        />
      )}
    </Card>
  )
}

const STREAMS = 'streams'
const GROUPS = { kernel: 'Kernels', operator: 'Operators', python: 'Python', annotation: 'Annotations', other: 'Other' }

/** Groups with events, kernels first; streams if there are several. */
function tabsOf(view: View): { value: string; label: string }[] {
  const groups = payloadByName(view, 'groups', 'figures')
  const tabs = Object.entries(GROUPS)
    .filter(([key]) => numberOf(groups, `${key}_events`))
    .map(([value, label]) => ({ value, label }))
  const streams = payloadByName(view, 'range_streams', 'table')?.total_rows ?? 0
  return streams > 1 ? [...tabs, { value: STREAMS, label: 'By stream' }] : tabs
}

function Devices({ view }: { view: View }) {
  const { summary, range_devices: devices } = view.payloads
  const events = summary?.kind === 'figures' ? figureOf(summary, 'events') : undefined
  const rows = devices?.kind === 'table' ? devices.rows : []
  const idle = summary?.kind === 'figures' ? figureOf(summary, 'waiting_threads') : undefined
  return (
    <>
      {events && counted(Number(events.value), 'event')}
      {rows.map((row) => (
        <span key={String(row.device)}>
          {' · '}device {String(row.device)} busy {format(Number(row.busy_ns), 'ns')},{' '}
          {format(Number(row.busy_ratio), 'ratio')}
        </span>
      ))}
      {idle && <span title={idle.note}> · {counted(Number(idle.value), 'waiting thread')} not listed</span>}
    </>
  )
}

/** The selected event, and the marked range or the summary of a track; null if there are none. */
export function panelsOf(props: {
  event: ReactNode
  hits: ReactNode
  range: Range | null
  view: Range
  track: SummaryTrack | null
  startedIn: SummaryTrack | null
  base: Query
  search: string
  onShow: (range: Range) => void
}): ReactNode {
  const { event, hits, range, view, ...rest } = props
  const span = range ?? (rest.track ? view : null)
  if (!event && !span && !hits) return null
  return (
    <div className={panelsCss.panels}>
      {hits}
      {event}
      {span && (
        <RangePanel
          range={span}
          isMarked={range !== null}
          {...rest}
          onClose={() => setRoute({ from_ns: '', to_ns: '', track: '' })}
        />
      )}
    </div>
  )
}
