// Blocks of an allocator: filters and an opened row.

import { Menu } from '@mantine/core'
import { useEffect } from 'react'
import type { Breakdown, Table } from '../../api/payloads'
import { format } from '../../lib/format'
import { shortenMiddle } from '../../lib/names'
import type { Row } from '../../lib/tableRows'
import { RowFigures } from '../../parts/detailBlock'
import { showInTimeline } from '../../state/links'
import { joinList, splitList } from '../../state/tensorboardHash'
import { openView, setRoute, useFilter, useRoute } from '../../state/urlState'
import { CopyButton, SmallButton } from '../../widgets/basics'
import { Choice } from '../../widgets/choice'
import type { Band } from '../../widgets/curveOption'
import { ChevronDown } from '../../widgets/icons'
import { RangeFilter } from '../../widgets/rangeFilter'
import { rowText } from '../../widgets/tableRow'
import { ALLOCATORS } from './allocators'
import rowDetailCss from '../../parts/rowDetail.module.css'
import textCss from '../../widgets/text.module.css'
import css from './memoryBlocks.module.css'

export const BLOCKS = 'memory_events'
export const SHAPES = 'memory_shapes'
export const STEPS = 'memory_steps'
export const ORIGIN = ['name', 'outermost_operator', 'module', 'allocation_frame', 'allocation_phase']
/** Columns that filter blocks; stored in the URL. */
export const OF_BLOCK = [...ORIGIN, 'caller', 'allocation_step', 'block_state', 'outlives_step', 'block_number']

/** Range filters: column, label, URL and query keys. */
const RANGES = [
  { key: 'block_bytes', label: 'Size', unit: 'bytes' },
  { key: 'lifetime_ns', label: 'Lifetime', unit: 'ns' },
] as const
export const LIMITS = RANGES.flatMap(({ key }) => [`min_${key}`, `max_${key}`])
export const NO_LIMITS = Object.fromEntries(LIMITS.map((key) => [key, '']))

export function BlockFilters({ table, states }: { table: Table | null; states: Breakdown | null }) {
  const route = useRoute()
  return (
    <>
      {RANGES.map(({ key, label, unit }) => (
        <RangeFilter
          key={key}
          label={label}
          unit={unit}
          range={{ low: route[`min_${key}`] ?? '', high: route[`max_${key}`] ?? '' }}
          extremes={table?.extremes[key]}
          onChange={({ low, high }) => setRoute({ [`min_${key}`]: low, [`max_${key}`]: high, row: '' }, true)}
        />
      ))}
      {states && <StateFilter states={states} />}
    </>
  )
}

function StateFilter({ states }: { states: Breakdown }) {
  const [chosen, choose] = useFilter('block_state')
  return (
    <Choice
      size="sm"
      className={css.state}
      label="Block state"
      value={chosen}
      onChange={choose}
      options={[
        { value: '', label: 'Any state' },
        ...states.parts.map(({ metric, value }) => ({
          value: metric.title,
          label: `${metric.title} · ${format(value, 'count')}`,
        })),
      ]}
    />
  )
}

/** Keeps only the rows that agree with one in a column, in its own table or in another. */
function FilterLikeBlock({ row, table }: { row: Row; table: Table }) {
  const { where } = useRoute()
  const keys = table.name === BLOCKS ? OF_BLOCK.slice(0, -1) : ORIGIN
  const columns = table.columns.filter(({ metric }) => keys.includes(metric.key) && row[metric.key] !== null)
  if (columns.length === 0) return null
  const narrow = (key: string) => {
    const others = splitList(where).filter((item) => !item.startsWith(`${key}:`))
    setRoute({ where: joinList([...others, `${key}:${row[key]}`]), row: '' }, true)
  }
  return (
    <Menu position="bottom-start" withinPortal>
      <Menu.Target>
        <SmallButton rightSection={<ChevronDown />}>Filter by</SmallButton>
      </Menu.Target>
      <Menu.Dropdown>
        {columns.map(({ metric }) => (
          <Menu.Item key={metric.key} onClick={() => narrow(metric.key)}>
            <span className={textCss.mute}>{metric.title}:</span>{' '}
            <span className={textCss.mono}>{shortenMiddle(format(row[metric.key], metric.unit), 60)}</span>
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}

/** From a step to the blocks it retained. */
function showBlocks(row: Row): void {
  const keys = ['allocation_step', 'name', 'module', 'allocation_frame']
  const where = keys.filter((key) => key in row).map((key) => `${key}:${row[key] ?? ''}`)
  const left = { sort: '', desc: '', cols: '', row: '', search: '', ...NO_LIMITS }
  setRoute({ ...left, group: BLOCKS, where: joinList([...where, 'outlives_step:true']) }, true)
}

const showShapes = (row: Row) => openView('operators', { group: 'operators_by_shape', where: `name:${row.name}` })

const timeOf = (row: Row, key: string) => (typeof row[key] === 'number' ? row[key] : null)

/** A block's lifetime; null for other tables. */
export function lifeOf(row: Row, table: Table): Band | null {
  if (table.name !== BLOCKS) return null
  const [start, end] = [timeOf(row, 'allocated_at_ns'), timeOf(row, 'released_at_ns')]
  // A single event has no known lifetime: an instant.
  const [first, last] =
    row.block_state === 'unpaired' ? [end, start] : [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
  return { label: '', start: start ?? first ?? 0, end: end ?? last ?? 0 }
}

/** An opened block, marked on the curve. */
export function BlockDetail({ row, table, onOpen }: { row: Row; table: Table; onOpen: (block: Band | null) => void }) {
  const start = timeOf(row, 'allocated_at_ns')
  const end = timeOf(row, 'released_at_ns')
  const isBlock = table.name === BLOCKS
  useEffect(() => {
    onOpen(lifeOf(row, table))
    return () => onOpen(null)
  }, [row, table, onOpen])
  const at = start ?? end
  return (
    <div className={rowDetailCss.grid}>
      <div data-testid="detail-name" className={rowDetailCss.name}>
        <span className={textCss.mono}>{String(row[table.name_column] ?? '')}</span>
        <span className={textCss.row}>
          {isBlock && at !== null && (
            <SmallButton onClick={() => showInTimeline(null, at, (end ?? at) - at)}>Show in timeline</SmallButton>
          )}
          {table.name === STEPS && <SmallButton onClick={() => showBlocks(row)}>Show blocks</SmallButton>}
          {table.name === SHAPES && <SmallButton onClick={() => showShapes(row)}>Show shapes</SmallButton>}
          {table.name === ALLOCATORS && (
            <SmallButton onClick={() => setRoute({ allocator: String(row.allocator) }, true)}>Show curve</SmallButton>
          )}
          {table.name !== STEPS && table.name !== SHAPES && <FilterLikeBlock row={row} table={table} />}
          <CopyButton label="Copy row" text={() => rowText(row, table.columns)} />
        </span>
      </div>
      <RowFigures row={row} table={table} isShown={({ metric }) => (row[metric.key] ?? null) !== null} />
    </div>
  )
}
