// Rows of a server-side table, page by page.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { ApiError, getTable, lastTable, type Query } from '../api/client'
import type { Problem, Table } from '../api/payloads'
import { emptyKeys } from '../lib/columns'
import type { Pages, Row, TableQuery } from '../lib/tableRows'
import { useActivity } from './activity'
import { useExported } from './current'
import { problemOf, whenReady } from './data'

/** Rows of a page. */
export const PAGE_ROWS = 200
/** Rows of a page that is exported as text. */
const EXPORTED = 20

interface Loaded {
  key: string
  table: Table | null
  rows: Row[]
  /** The request without search, filters and order, which do not change empty columns. */
  base: Query | null
  empty: ReadonlySet<string>
  problem: Problem | null
}

const pageQuery = (ask: Query, index: number): Query => ({ ...ask, offset: index * PAGE_ROWS, limit: PAGE_ROWS })

const NO_KEYS: ReadonlySet<string> = new Set()
export const NO_ROWS: Loaded = { key: '', table: null, rows: [], base: null, empty: NO_KEYS, problem: null }

export function mergePages(old: Loaded, key: string, base: Query, table: Table): Loaded {
  const rows = old.key === key ? old.rows.slice() : []
  table.rows.forEach((row, i) => {
    rows[table.offset + i] = row
  })
  // Columns must not move during a search.
  const isSame = old.base === base && old.table?.name === table.name
  return { key, table, rows, base, empty: emptyKeys(table) ?? (isSame ? old.empty : NO_KEYS), problem: null }
}

export function usePages(view: string, table: string, base: Query, query: TableQuery, enabled = true): Pages {
  const ask: Query = useMemo(
    () => ({
      ...base,
      sort: query.sort,
      desc: query.sort ? (query.desc ? 1 : 0) : null,
      search: query.search,
      where: query.where,
    }),
    [base, query],
  )
  const key = enabled ? JSON.stringify([view, table, ask]) : ''
  const withLast = (old: Loaded): Loaded => {
    const page = key === '' || old.key === key ? null : lastTable(view, table, pageQuery(ask, 0))
    return page ? mergePages(old, key, base, page) : old
  }
  const [loaded, setLoaded] = useState(() => withLast(NO_ROWS))
  const latest = useRef(withLast)
  latest.current = withLast
  const pending = useRef(new Set<number>())
  const current = useRef({ key, abort: new AbortController() })

  const fetchPage = useCallback(
    async (index: number) => {
      if (pending.current.has(index)) return
      pending.current.add(index)
      const { abort, key: mine } = current.current
      try {
        const page = await whenReady(
          () => getTable(view, table, pageQuery(ask, index), abort.signal),
          () => abort.signal.aborted,
        )
        if (page === null) return
        setLoaded((old) =>
          old.key === mine && old.table === page && !old.problem ? old : mergePages(old, mine, base, page),
        )
      } catch (error) {
        if (abort.signal.aborted) return
        setLoaded((old) => ({ ...old, key: mine, problem: problemOf(error), rows: old.key === mine ? old.rows : [] }))
        if (error instanceof ApiError && error.status === 0)
          window.setTimeout(() => pending.current.delete(index), 5000)
      }
    },
    [view, table, base, ask],
  )

  useEffect(() => {
    const abort = new AbortController()
    current.current = { key, abort }
    pending.current = new Set()
    setLoaded(latest.current)
    if (key !== '') fetchPage(0)
    return () => abort.abort()
  }, [key, fetchPage])

  const want = useCallback(
    (from: number, to: number) => {
      for (let page = Math.floor(from / PAGE_ROWS); page <= Math.floor(to / PAGE_ROWS); page++) fetchPage(page)
    },
    [fetchPage],
  )
  const fresh = loaded.key === key
  useActivity(!fresh && key !== '')
  // Never show old rows under a new table's name.
  const usable = fresh || (loaded.table?.name === table && key !== '')
  const exported = useMemo(
    () => (usable && loaded.table ? { ...loaded.table, rows: loaded.rows.slice(0, EXPORTED) } : null),
    [usable, loaded],
  )
  useExported(exported)
  return {
    table: usable ? loaded.table : null,
    count: usable ? (loaded.table?.matched_rows ?? 0) : 0,
    row: (index) => (usable ? loaded.rows[index] : undefined),
    want,
    empty: loaded.empty,
    busy: !fresh && key !== '',
    problem: fresh ? loaded.problem : null,
  }
}
