// A table with search, filters and columns; stored in the URL.

import { ActionIcon, Button, Checkbox, Popover, TextInput, Tooltip } from '@mantine/core'
import { type CSSProperties, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { type Query, tableCsvUrl } from '../api/client'
import type { Table } from '../api/payloads'
import { isDrawn, toggled } from '../lib/columns'
import { counted } from '../lib/format'
import { shortenMiddle, shortKernel } from '../lib/names'
import { parseSearch } from '../lib/search'
import type { Row, TableQuery } from '../lib/tableRows'
import { setCurrent } from '../state/current'
import { usePages } from '../state/tablePages'
import { joinList, splitList, type Values } from '../state/tensorboardHash'
import { openView, setRoute, useRoute } from '../state/urlState'
import { CloseButton } from '../widgets/basics'
import { Switch } from '../widgets/choice'
import { ColumnsIcon, SearchIcon } from '../widgets/icons'
import { DataTable } from '../widgets/table'
import type { NameStyle } from '../widgets/tableCells'
import { useHeight } from '../widgets/useSize'
import textCss from '../widgets/text.module.css'
import css from './tableSection.module.css'
import toolbarCss from './toolbar.module.css'

const DEBOUNCE_MS = 300

export interface Group {
  table: string
  label: string
  /** Columns that its filters may name; absent = those of every group. */
  filters?: readonly string[]
  nameStyle?: NameStyle
  widest?: number
  /** Remark on all rows. */
  note?: string
}

function queryOf(route: Values): TableQuery {
  return { sort: route.sort ?? '', desc: route.desc !== '0', search: route.search ?? '', where: splitList(route.where) }
}

export function SearchBox({
  value,
  onChange,
  placeholder,
  onStep,
  error,
  searchNote,
}: {
  value: string
  onChange: (value: string) => void
  placeholder: string
  /** Enter: to the next hit, with Shift to the one before. */
  onStep?: (by: -1 | 1) => void
  /** Why nothing can be found. */
  error?: string | null
  /** Content at the end of the search field, `width` pixels wide. */
  searchNote?: { width: number; content: ReactNode }
}) {
  const [text, setText] = useState(value)
  const timer = useRef(0)
  useEffect(() => setText(value), [value])
  useEffect(() => () => window.clearTimeout(timer.current), [])
  const search = parseSearch(text)
  const change = (next: string) => {
    setText(next)
    window.clearTimeout(timer.current)
    if (parseSearch(next).kind === 'bad') return
    timer.current = window.setTimeout(() => onChange(next), DEBOUNCE_MS)
  }
  return (
    <TextInput
      className={toolbarCss.search}
      size="sm"
      type="search"
      data-search
      leftSection={<SearchIcon />}
      placeholder={placeholder}
      aria-label={placeholder}
      value={text}
      error={search.kind === 'bad' ? search.reason : error}
      classNames={{ wrapper: toolbarCss.field, error: toolbarCss.error }}
      rightSection={searchNote?.content}
      rightSectionWidth={searchNote?.width}
      onChange={(event) => change(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key === 'Escape') change('')
        if (event.key !== 'Enter' || search.kind === 'bad') return
        window.clearTimeout(timer.current)
        onChange(text)
        onStep?.(event.shiftKey ? -1 : 1)
      }}
    />
  )
}

export function TableSection(props: {
  view: string
  base: Query
  groups: readonly Group[]
  nameStyle?: NameStyle
  placeholder: string
  lead?: ReactNode
  /** The view's own filters; `cleared` removes them from the URL. */
  filters?: (table: Table | null) => ReactNode
  cleared?: Values
  onPoint?: (row: Row | null, table: Table) => void
  detail: (row: Row, table: Table) => ReactNode
  /** Rows scroll within one screen; absent: with the page. */
  bounded?: boolean
}) {
  const { view, base, groups, nameStyle, placeholder, lead, filters, cleared, onPoint, detail, bounded = false } = props
  const route = useRoute()
  const group = groups.find((item) => item.table === route.group) ?? groups[0]
  const { sort, desc, search, where } = route
  const query = useMemo(
    () => queryOf({ sort: sort ?? '', desc: desc ?? '', search: search ?? '', where: where ?? '' }),
    [sort, desc, search, where],
  )
  const pages = usePages(view, group.table, base, query)
  const { table } = pages
  const tools = useRef<HTMLDivElement>(null)
  const toolsHeight = useHeight(tools)
  const shown = useMemo(() => (route.cols ? route.cols.split(',') : null), [route.cols])

  useEffect(() => {
    const url = tableCsvUrl(view, group.table, {
      ...base,
      sort: query.sort,
      desc: query.sort ? (query.desc ? 1 : 0) : null,
      search: query.search,
      where: query.where,
    })
    setCurrent({ csv: { url, title: group.label } })
    return () => setCurrent({ csv: null })
  }, [view, group, base, query])

  return (
    <section
      className={bounded ? `${css.section} ${css.bounded}` : css.section}
      style={{ '--tt-tools': `${toolsHeight}px` } as CSSProperties}
      aria-label={group.label}
    >
      <div data-testid="toolbar" className={`${toolbarCss.toolbar} ${css.tools}`} ref={tools}>
        {lead}
        {groups.length > 1 && (
          <Switch
            size="sm"
            label="Group rows by"
            value={group.table}
            onChange={(next) => {
              const { filters } = groups.find((item) => item.table === next) ?? groups[0]
              const kept = query.where.filter((item) => !filters || filters.includes(item.split(':')[0]))
              const change = { sort: '', desc: '', cols: '', row: '', where: joinList(kept) }
              setRoute({ group: next === groups[0].table ? '' : next, ...change }, true)
            }}
            options={groups.map((item) => ({ value: item.table, label: item.label }))}
          />
        )}
        <SearchBox
          value={query.search}
          onChange={(next) => setRoute({ search: next, row: '' })}
          placeholder={placeholder}
        />
        {filters?.(table)}
        <Chips where={query.where} table={table} />
        <span className={toolbarCss.end}>
          <span data-testid="count" className={`${toolbarCss.count} ${textCss.mute}`}>
            {table &&
              (pages.count === table.total_rows
                ? counted(table.total_rows, 'row')
                : `${pages.count.toLocaleString('en-US')} of ${counted(table.total_rows, 'row')}`)}
            {group.note && ` · ${group.note}`}
          </span>
          {table?.sql && <SqlButton query={table.sql} size="sm" />}
          {table && <ColumnChooser table={table} shown={shown} empty={pages.empty} />}
        </span>
      </div>
      <DataTable
        pages={pages}
        query={query}
        onSort={(key, descending) => setRoute({ sort: key, desc: descending ? '1' : '0' })}
        shown={shown}
        nameStyle={group.nameStyle ?? nameStyle}
        widest={group.widest}
        open={route.row}
        onOpen={(row) => setRoute({ row })}
        detail={detail}
        onClear={() => setRoute({ search: '', where: '', ...cleared }, true)}
        onPoint={onPoint}
        inPage={!bounded}
        label={group.label}
      />
    </section>
  )
}

export const SqlButton = ({ query, size }: { query: string; size: 'sm' | 'compact-xs' }) => (
  <Tooltip label="Show the query that gives this table">
    <Button size={size} variant="default" onClick={() => openView('sql', { query })}>
      SQL
    </Button>
  </Tooltip>
)

function Chips({ where, table }: { where: readonly string[]; table: Table | null }) {
  return (
    <>
      {where.map((item) => {
        const at = item.indexOf(':')
        const column = table?.columns.find(({ metric }) => metric.key === item.slice(0, at))
        const value = item.slice(at + 1)
        return (
          <span data-testid="chip" className={toolbarCss.chip} key={item} title={value}>
            <span className={textCss.mute}>{column?.metric.title ?? item.slice(0, at)}:</span>{' '}
            <span className={textCss.mono}>{shortenMiddle(shortKernel(value), 36)}</span>
            <CloseButton
              size="xs"
              label={`Remove filter ${value}`}
              onClick={() => setRoute({ where: joinList(where.filter((other) => other !== item)), row: '' }, true)}
            />
          </span>
        )
      })}
    </>
  )
}

function ColumnChooser(props: { table: Table; shown: readonly string[] | null; empty: ReadonlySet<string> }) {
  const { table, shown, empty } = props
  const columns = table.columns.filter((column) => column.metric.key !== table.name_column)
  const toggle = (key: string) => setRoute({ cols: toggled(columns, shown, empty, key)?.join(',') ?? '' })
  return (
    <Popover position="bottom-end" withinPortal trapFocus>
      <Popover.Target>
        <Tooltip label="Choose columns">
          <ActionIcon variant="default" size="lg" aria-label="Choose columns">
            <ColumnsIcon />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={toolbarCss.menu}>
          {columns.map((column) => (
            <Checkbox
              key={column.metric.key}
              size="xs"
              label={empty.has(column.metric.key) ? `${column.metric.title} (empty)` : column.metric.title}
              checked={isDrawn(column, shown, empty)}
              onChange={() => toggle(column.metric.key)}
            />
          ))}
        </div>
      </Popover.Dropdown>
    </Popover>
  )
}
