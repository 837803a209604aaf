// The large table: server-side rows, virtual scrolling.
import { Button } from '@mantine/core'
import { useVirtualizer } from '@tanstack/react-virtual'
import {
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
  type UIEvent,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { Column, Table } from '../api/payloads'
import { clamp } from '../lib/axisTicks'
import { isDrawn } from '../lib/columns'
import { counted, familyScales, isNumeric, type Scale } from '../lib/format'
import { labelsOf } from '../lib/names'
import { type Pages, type Row, rowId, type TableQuery } from '../lib/tableRows'
import { Placeholder } from './basics'
import { ProblemPanel } from './problem'
import { SmallTable } from './smallTable'
import { fittingWidths, type NameStyle, readableName, roomOf, shortOf, startWidth } from './tableCells'
import { HeaderCell, RowCells, widthProperty } from './tableRow'
import { usePrinting } from './usePrinting'
import { useWidth } from './useSize'
import css from './table.module.css'
import textCss from './text.module.css'

const ROW = 32
/** Pixels of a column, however it is dragged. */
const [NARROWEST, WIDEST] = [60, 1600]

interface DataTableProps {
  pages: Pages
  query: TableQuery
  onSort: (key: string, desc: boolean) => void
  /** Visible column keys; null for the server's default. */
  shown: readonly string[] | null
  nameStyle?: NameStyle
  widest?: number
  /** The open row, by its key values. */
  open?: string
  /** A row was clicked: it is to be opened, with its `detail` below it if there is one. */
  onOpen?: (row: string) => void
  detail?: (row: Row, table: Table) => ReactNode
  onClear?: () => void
  /** The row under the pointer or the focus; null when there is none any more. */
  onPoint?: (row: Row | null, table: Table) => void
  /** Rows scroll with the page; absent: within the room that the table is given. */
  inPage?: boolean
  label: string
}

/** One unit a family of columns, from all their rows: it does not change while scrolling. */
function useScales({ table }: Pages): Map<string, Scale> {
  return useMemo(() => familyScales(table?.columns ?? [], (key) => table?.extremes[key] ?? []), [table])
}

/** Rows on paper. */
const MOST_PRINTED = 2000

/** The loaded rows on paper: the columns share its width, and each page has their heads. */
function PrintedTable({ pages, table, shown, nameStyle }: DataTableProps & { table: Table }) {
  const printed = useMemo(() => {
    const rows: Row[] = []
    for (let i = 0; i < Math.min(pages.count, MOST_PRINTED); i++) {
      const row = pages.row(i)
      if (row) rows.push(row)
    }
    const columns = orderedColumns(table).filter(
      (column) => column.metric.key === table.name_column || isDrawn(column, shown, pages.empty),
    )
    return {
      ...table,
      rows,
      columns: columns.map((column) => ({ ...column, hidden: false })),
    }
  }, [pages, table, shown])
  return (
    <div data-testid="printed" className={css.printed}>
      <SmallTable table={printed} limit={MOST_PRINTED} nameStyle={nameStyle} />
    </div>
  )
}

export function DataTable(props: DataTableProps) {
  const { pages, query, shown, onClear, label } = props
  const { table } = pages
  const isPrinting = usePrinting()
  if (!table) {
    return pages.problem ? <ProblemPanel problem={pages.problem} /> : <Placeholder height="80vh" />
  }
  return (
    <div className={props.inPage ? `${css.frame} ${css.inPage}` : css.frame} aria-busy={pages.busy}>
      {pages.problem && <ProblemPanel problem={pages.problem} />}
      {isPrinting && <PrintedTable {...props} table={table} />}
      <Grid {...props} table={table} key={`${table.name} ${table.columns.length}`} />
      {!pages.busy && !pages.problem && pages.count === 0 && (
        <div className={`${textCss.none} ${css.nothing}`}>
          {table.total_rows === 0 ? (
            'No rows for the selected steps.'
          ) : (
            <>
              None of {table.total_rows.toLocaleString('en-US')} rows match.{' '}
              {onClear && (
                <Button size="compact-sm" variant="default" onClick={onClear}>
                  Clear search and filters
                </Button>
              )}
            </>
          )}
        </div>
      )}
      <span className={textCss.sr} role="status">
        {label}: {counted(pages.count, 'row')}
        {query.search && ` match ${query.search}`}
        {shown && `, ${shown.length} columns`}
      </span>
    </div>
  )
}

function Grid(props: DataTableProps & { table: Table }) {
  const { table: data, pages, query, onSort, shown, open, onOpen, onPoint, detail, nameStyle = 'plain', label } = props
  const { widest = 340, inPage = false } = props
  const scroller = useRef<HTMLDivElement>(null)
  const body = useRef<HTMLDivElement>(null)
  const width = useWidth(scroller)
  const scrolled = () => (inPage ? document.getElementById('main') : scroller.current)
  const offset = useOffset(body, scrolled)
  const scales = useScales(pages)
  const columns = useMemo(() => orderedColumns(data), [data])
  // From the first rows only, so that columns do not move while scrolling.
  const [[starts, whole]] = useState(() =>
    [widest, WIDEST].map(
      (most) =>
        new Map(
          columns.map((column) => [
            column.metric.key,
            startWidth(column, data.rows, most, column.metric.key === data.sort?.key),
          ]),
        ),
    ),
  )
  const { empty } = pages
  const visible = useMemo(
    () => columns.filter((column) => column.metric.key === data.name_column || isDrawn(column, shown, empty)),
    [columns, data.name_column, shown, empty],
  )
  const fitting = useMemo(
    () => fittingWidths(visible, starts, data.name_column, width - 2, whole),
    [visible, starts, whole, data.name_column, width],
  )
  const [dragged, setDragged] = useState<Readonly<Record<string, number>>>({})
  const widthOf = (key: string) => clamp(dragged[key] ?? fitting.get(key) ?? starts.get(key) ?? 100, NARROWEST, WIDEST)
  const sizes: Record<string, string> = {
    '--tt-row-width': `${visible.reduce((sum, { metric }) => sum + widthOf(metric.key), 0)}px`,
  }
  for (const { metric } of visible) sizes[widthProperty(metric.key)] = `${widthOf(metric.key)}px`

  const rows = useVirtualizer({
    count: pages.count,
    getScrollElement: scrolled,
    scrollMargin: offset,
    // The page's scroll position survives a table change.
    initialOffset: () => scrolled()?.scrollTop ?? 0,
    estimateSize: () => ROW,
    overscan: 12,
    getItemKey: (index) => {
      const row = pages.row(index)
      return row ? rowId(row, data.row_key) : index
    },
  })
  const items = rows.getVirtualItems()
  const from = items[0]?.index ?? 0
  const to = items[items.length - 1]?.index ?? 0
  const { want } = pages
  useEffect(() => {
    if (to > 0) want(from, to)
  }, [from, to, want])

  // A row opened by a link or a chart is scrolled into view and stays there while content above loads,
  // until the user acts.
  const isTaken = useRef(false)
  const openedHere = useRef('')
  const lastOpen = useRef(open)
  useEffect(() => {
    const abort = new AbortController()
    const take = () => {
      isTaken.current = true
    }
    const options = { capture: true, passive: true, signal: abort.signal }
    for (const act of ['wheel', 'pointerdown', 'keydown'] as const) window.addEventListener(act, take, options)
    return () => abort.abort()
  }, [])
  // biome-ignore lint/correctness/useExhaustiveDependencies: scrolls only for another row
  useEffect(() => {
    if (open !== lastOpen.current) {
      lastOpen.current = open
      isTaken.current = open === openedHere.current
    }
    if (isTaken.current || pages.busy || !open) return
    const at = data.rows.findIndex((row) => rowId(row, data.row_key) === open)
    if (at >= 0) rows.scrollToIndex(data.offset + at, { align: 'center' })
  }, [pages.busy, offset, open])

  const room = roomOf(widthOf(data.name_column))
  const labels = useMemo(
    () =>
      labelsOf(
        data.rows.map((row) => readableName(row, data.name_column)),
        room,
        shortOf(nameStyle, data),
      ),
    [data, room, nameStyle],
  )
  // Only first-page rows set the labels, so that they do not change while scrolling.
  const labelOf = (name: string) =>
    labels.get(name) ?? labelsOf([name], room, shortOf(nameStyle, data)).get(name) ?? { short: name, rest: '' }

  const sort = query.sort ? { key: query.sort, descending: query.desc } : data.sort
  const move = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    const row = (event.target as HTMLElement).closest('[role=row]')
    const next = event.key === 'ArrowDown' ? row?.nextElementSibling : row?.previousElementSibling
    const button = next?.querySelector<HTMLElement>('[role=rowheader] button')
    if (!button) return
    event.preventDefault()
    button.focus()
  }

  const pointed = useRef<Row | null>(null)
  const point = (row: Row | null) => {
    if (row === pointed.current) return
    pointed.current = row
    onPoint?.(row, data)
  }
  const pointAt = (event: { target: EventTarget }) => {
    const item = event.target instanceof Element ? event.target.closest('[data-index]') : null
    point((item && pages.row(Number(item.getAttribute('data-index')))) ?? null)
  }
  const leave = useRef(point)
  leave.current = point
  useEffect(() => () => leave.current(null), [])

  // Head, rows and the bar below them move to the side as one: what scrolls to the side does not scroll up and down, so that the
  // head can stay in sight while the page scrolls.
  const aside = (event: UIEvent<HTMLElement>) => {
    const { scrollLeft } = event.currentTarget
    for (const part of scroller.current?.querySelectorAll('[data-aside]') ?? [])
      if (part.scrollLeft !== scrollLeft) part.scrollLeft = scrollLeft
  }

  return (
    <div data-testid="grid" className={css.grid} ref={scroller} style={sizes as CSSProperties}>
      <div
        role="table"
        className={css.table}
        aria-label={label}
        aria-rowcount={pages.count + 1}
        aria-colcount={visible.length}
      >
        <div role="rowgroup" className={css.head} data-aside onScroll={aside}>
          <div role="row" className={css.row} aria-rowindex={1}>
            {visible.map((column) => {
              const { key, unit } = column.metric
              const active = sort?.key === key
              return (
                <HeaderCell
                  key={key}
                  column={column}
                  scale={scales.get(key)}
                  isName={key === data.name_column}
                  direction={active ? (sort.descending ? 'descending' : 'ascending') : 'none'}
                  onSort={() => onSort(key, active ? !sort.descending : isNumeric(unit))}
                  width={widthOf(key)}
                  onResize={(width) => setDragged((before) => ({ ...before, [key]: width }))}
                />
              )
            })}
          </div>
        </div>
        <div className={css.rows} data-aside onScroll={aside}>
          <div
            role="rowgroup"
            ref={body}
            className={css.body}
            style={{ height: rows.getTotalSize() }}
            onKeyDown={move}
            onPointerOver={pointAt}
            onPointerLeave={() => point(null)}
            onFocus={pointAt}
            onBlur={() => point(null)}
          >
            {items.map((item) => {
              const row = pages.row(item.index)
              const id = row ? rowId(row, data.row_key) : ''
              const isOpen = row !== undefined && detail !== undefined && id === open
              return (
                <div
                  key={item.key}
                  role="row"
                  aria-rowindex={item.index + 2}
                  data-index={item.index}
                  ref={rows.measureElement}
                  className={isOpen ? `${css.item} ${css.open}` : css.item}
                  style={{ transform: `translateY(${item.start - offset}px)` }}
                >
                  {row ? (
                    <RowCells
                      row={row}
                      columns={visible}
                      data={data}
                      scales={scales}
                      widths={widthOf}
                      labels={labelOf}
                      isOpen={detail ? isOpen : null}
                      onToggle={
                        onOpen &&
                        (() => {
                          openedHere.current = id
                          onOpen(isOpen ? '' : id)
                        })
                      }
                    />
                  ) : (
                    <div className={`${css.row} ${css.wait}`} role="cell">
                      …
                    </div>
                  )}
                  {isOpen && (
                    <div
                      role="cell"
                      data-testid="detail"
                      className={css.detail}
                      style={{ width: Math.max(300, width - 2) }}
                    >
                      {detail(row, data)}
                    </div>
                  )}
                </div>
              )
            })}
          </div>
        </div>
      </div>
      <div className={css.bar} data-aside aria-hidden tabIndex={-1} onScroll={aside}>
        <div />
      </div>
    </div>
  )
}

/** The name comes first, whatever order the server has. */
function orderedColumns(data: Table): Column[] {
  const name = data.columns.filter((column) => column.metric.key === data.name_column)
  return [...name, ...data.columns.filter((column) => column.metric.key !== data.name_column)]
}

/** Pixels from the scroller's start to the element. */
function useOffset(ref: RefObject<HTMLElement | null>, scroller: () => HTMLElement | null): number {
  const [offset, setOffset] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: an element stays in what scrolls it
  useLayoutEffect(() => {
    const node = ref.current
    const around = scroller()
    if (!node || !around) return
    const measure = () =>
      setOffset(Math.round(node.getBoundingClientRect().top - around.getBoundingClientRect().top + around.scrollTop))
    const observer = new ResizeObserver(measure)
    // Any change above resizes a sibling or an ancestor.
    for (let at: HTMLElement | null = node; at && at !== around; at = at.parentElement)
      for (const child of at.parentElement?.children ?? []) observer.observe(child)
    measure()
    return () => observer.disconnect()
  }, [])
  return offset
}
