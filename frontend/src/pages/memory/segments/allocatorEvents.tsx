// A virtual list of all allocator events.
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../../api/client'
import type { Table, View } from '../../../api/payloads'
import { format } from '../../../lib/format'
import { shortenMiddle } from '../../../lib/names'
import type { Row } from '../../../lib/tableRows'
import { numberOf, payloadByName } from '../../../parts/payloadByName'
import { SearchBox } from '../../../parts/tableSection'
import { useView } from '../../../state/data'
import textCss from '../../../widgets/text.module.css'
import css from './allocatorEvents.module.css'

const ROW = 21
const PAGE = 300
const HALF = PAGE / 2

const number = (view: View | null, key: string) => numberOf(view && payloadByName(view, 'found', 'figures'), key)

export function AllocatorEvents(props: {
  base: Query
  device: string
  at: number
  height: number
  search: string
  onSearch: (search: string) => void
  onChoose: (event: number) => void
}) {
  const { base, device, at, height, search, onSearch, onChoose } = props
  /** The request: around an event, or from an index. */
  const [asked, setAsked] = useState<{ near: number } | { first: number }>({ near: at })
  const [top, setTop] = useState<number | null>(null)
  const query = useMemo<Query>(
    () => ({ ...base, device, search, limit: PAGE, ...asked }),
    [base, device, search, asked],
  )
  const { data, problem } = useView('allocator_events', query)
  const count = number(data, 'events_found') ?? 0
  const first = number(data, 'first_found') ?? 0
  const table = data ? payloadByName(data, 'events', 'table') : null
  const rows = useRows(data, table)
  const shown = Math.max(1, Math.floor((height - 44) / ROW))
  const most = Math.max(0, count - shown)
  const place = placeOf(rows, first, at) ?? ('near' in asked && asked.near === at ? number(data, 'near_found') : null)
  const from = Math.max(0, Math.min(most, top ?? Math.max(0, (place ?? first) - (shown >> 1))))
  const list = useRef<HTMLDivElement>(null)

  // Scroll to a new moment or search, unless visible.
  // biome-ignore lint/correctness/useExhaustiveDependencies: scrolling is no reason to go back
  useEffect(() => {
    const known = placeOf(rows, first, at)
    if (known === null) {
      setAsked({ near: at })
      setTop(null)
    } else if (known < from || known >= from + shown) setTop(known - (shown >> 1))
  }, [at])
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another list begins anew
  useEffect(() => {
    setAsked({ near: at })
    setTop(null)
  }, [search, device])

  const scroll = (by: number) => {
    const next = Math.max(0, Math.min(most, Math.round(from + by)))
    setTop(next)
    if (next < first || next + shown > first + rows.length) setAsked({ first: Math.max(0, next - HALF) })
  }
  const wheel = useRef(scroll)
  wheel.current = scroll
  useEffect(() => {
    const node = list.current
    if (!node) return
    // React's listeners are passive: the page would scroll too.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault()
      wheel.current(event.deltaMode === 1 ? event.deltaY : event.deltaY / ROW)
    }
    node.addEventListener('wheel', onWheel, { passive: false })
    return () => node.removeEventListener('wheel', onWheel)
  }, [])

  const chosen = placeOf(rows, first, at)
  const step = (by: number) => {
    const next = chosen === null ? from : chosen + by
    const row = rows[next - first]
    if (row) onChoose(Number(row.event_number))
    else scroll(by)
  }
  const onKey = (event: KeyboardEvent) => {
    const keys: Record<string, () => void> = {
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      PageDown: () => scroll(shown),
      PageUp: () => scroll(-shown),
      Home: () => scroll(-count),
      End: () => scroll(count),
    }
    const action = keys[event.key]
    if (!action) return
    event.preventDefault()
    action()
  }
  const visible = Array.from({ length: Math.min(shown, count - from) }, (_, i) => from + i)
  return (
    <div className={css.events} style={{ height }}>
      <div className={css.search}>
        <SearchBox
          value={search}
          onChange={onSearch}
          placeholder="Action, line, 0xaddress, /regex/"
          error={problem?.what}
        />
      </div>
      <div
        ref={list}
        className={css.list}
        role="listbox"
        tabIndex={0}
        aria-label={`${count.toLocaleString('en-US')} allocator events`}
        aria-activedescendant={chosen !== null && chosen >= from && chosen < from + shown ? `event-${at}` : undefined}
        data-testid="allocator-events"
        onKeyDown={onKey}
      >
        {visible.map((i) => (
          <EventRow key={i} row={rows[i - first]} at={at} onChoose={onChoose} />
        ))}
        {count === 0 && data && (
          <p className={textCss.none}>{search ? 'No event matches.' : 'No history was recorded.'}</p>
        )}
        {count > shown && <i className={css.thumb} style={thumbOf(from, shown, count)} />}
      </div>
    </div>
  )
}

const thumbOf = (from: number, shown: number, count: number) => {
  const size = Math.max(0.04, shown / count)
  return { top: `${(from / Math.max(1, count - shown)) * (1 - size) * 100}%`, height: `${size * 100}%` }
}

const useRows = (view: View | null, table: Table | null): readonly Row[] =>
  useMemo(() => (view ? (table?.rows ?? []) : []), [view, table])

function placeOf(rows: readonly Row[], first: number, event: number): number | null {
  const at = rows.findIndex((row) => row.event_number === event)
  return at < 0 ? null : first + at
}

const SIGNS: Record<string, string> = {
  alloc: '+',
  free_requested: '…',
  free_completed: '−',
  segment_alloc: '⊞',
  segment_map: '⊞',
  segment_free: '⊟',
  segment_unmap: '⊟',
  oom: '!',
}

function EventRow({ row, at, onChoose }: { row: Row | undefined; at: number; onChoose: (event: number) => void }) {
  if (!row) return <div className={css.row} />
  const event = Number(row.event_number)
  const action = String(row.event_action)
  const line = String(row.allocation_line ?? '')
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the list takes the keys
    <div
      id={`event-${event}`}
      role="option"
      aria-selected={event === at}
      className={`${css.row} ${event === at ? css.chosen : ''} ${action === 'oom' ? css.oom : ''}`}
      title={`${event.toLocaleString('en-US')}: ${action} ${row.address ?? ''} ${line}`}
      onClick={() => onChoose(event)}
    >
      <span className={css.sign} aria-hidden="true">
        {SIGNS[action] ?? '·'}
      </span>
      <span className={css.action}>{action.replaceAll('_', ' ')}</span>
      <span className={`${css.size} ${textCss.num}`}>{format(row.event_bytes ?? null, 'bytes')}</span>
      <span className={css.line}>
        {shortenMiddle(line.slice(line.lastIndexOf('/') + 1), 34) || String(row.address ?? '')}
      </span>
    </div>
  )
}
