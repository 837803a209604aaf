// A tree table.
import { ActionIcon, Tooltip } from '@mantine/core'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef } from 'react'
import type { Column, Scalar, Tree, Unit } from '../api/payloads'
import { familyScales, isChange, isNumeric, type Scale } from '../lib/format'
import { frameLabels } from '../lib/frameLabels'
import { shortFrame } from '../lib/frames'
import { shortenMiddle } from '../lib/names'
import type { Row } from '../lib/tableRows'
import { MetricHelp, Value } from './basics'
import { ChevronDown, ChevronRight, CloseAllIcon, OpenAllIcon } from './icons'
import { isFrame, Presence, twoLines } from './tableCells'
import { usePrinting } from './usePrinting'
import textCss from './text.module.css'
import css from './tree.module.css'

/** Rows on paper. */
const MOST_PRINTED = 2000
const ROW = 28
/** Maximum indented levels, so that deep names stay visible. */
const DEEPEST = 14

/** Visible nodes in the order of `sequence` (parents first; default: tree order). */
function visibleNodes(tree: Tree, open: ReadonlySet<number>, sequence?: readonly number[]): number[] {
  const shown: boolean[] = []
  const see = (i: number) => {
    const parent = tree.parent[i]
    shown[i] = parent < 0 || (shown[parent] && open.has(parent))
    return shown[i]
  }
  return (sequence ?? tree.parent.map((_, i) => i)).filter(see)
}

function depths(tree: Tree): number[] {
  const out: number[] = []
  tree.parent.forEach((parent, i) => {
    out[i] = parent < 0 ? 0 : out[parent] + 1
  })
  return out
}

function hasChildren(tree: Tree): boolean[] {
  const out = tree.parent.map(() => false)
  for (const parent of tree.parent) if (parent >= 0) out[parent] = true
  return out
}

export interface TreeExtra {
  title: string
  help: string
  width: number
  cell: (row: Row) => ReactNode
}

/** Pixels of number columns where there is room and where there is little, of text columns, and characters of these. */
const NUMBER_PX = 88
const NARROW_PX = 62
/** Pixels of names: the least, and those that they get before numbers get more than they need. */
const NAME_PX = 156
const WIDE_NAME_PX = 320
const CHARACTER_PX = 7.6
const TEXT_PX = 150
const TEXT_LENGTH = 19

/** Hides unrecorded call counts. */
const isBlank = (key: string, value: Scalar) => value === null || (key === 'calls' && value === 0)

const columnsOf = (tree: Tree, without: readonly string[] = []) =>
  tree.columns.filter(
    ({ hidden, metric: { key } }) =>
      !hidden &&
      key !== tree.label_column &&
      !without.includes(key) &&
      !(key === 'calls' && tree.rows.every((row) => isBlank(key, row[key] ?? null))),
  )

function widthOf({ metric: { key, unit } }: Column, rows: readonly Row[]): number {
  if (isNumeric(unit)) return NUMBER_PX
  const longest = rows.reduce((most, row) => Math.max(most, String(row[key] ?? '').length), 0)
  return Math.min(TEXT_PX, Math.max(NUMBER_PX, longest * CHARACTER_PX + 8))
}

function TreeCell({ column, value, scale }: { column: Column; value: Scalar; scale?: Scale }) {
  const { key, unit } = column.metric
  if (key === 'presence') return <Presence presence={String(value ?? '')} />
  if (isBlank(key, value)) return <span />
  if (unit === 'code' && value !== null) {
    const text = String(value)
    const short = isFrame(column) ? shortFrame(text, TEXT_LENGTH) : text
    return (
      <span className={textCss.mono} title={text}>
        {shortenMiddle(short, TEXT_LENGTH)}
      </span>
    )
  }
  return (
    <span className={isNumeric(unit) ? textCss.right : undefined}>
      <Value value={value} unit={unit} scale={scale} bare change={isChange(key)} />
    </span>
  )
}

/** Pixels of the head, the borders and a scroll bar. */
const AROUND = 56
/** Least height of a long tree. */
const LEAST = 320

export function TreeTable(props: {
  tree: Tree
  without?: readonly string[]
  open: ReadonlySet<number>
  onOpen: (open: ReadonlySet<number>) => void
  selected: number
  onSelect: (node: number) => void
  match: ((name: string) => boolean) | null
  /** Node order, parents first; default: tree order. */
  sequence?: readonly number[]
  extra?: TreeExtra
}) {
  const { tree, without, open, onOpen, selected, onSelect, match, sequence, extra } = props
  const scroller = useRef<HTMLDivElement>(null)
  const nodes = useMemo(() => visibleNodes(tree, open, sequence), [tree, open, sequence])
  const depth = useMemo(() => depths(tree), [tree])
  const parents = useMemo(() => hasChildren(tree), [tree])
  const labels = useMemo(() => frameLabels(tree), [tree])
  const columns = useMemo(() => columnsOf(tree, without), [tree, without])
  const label = tree.columns.find((column) => column.metric.key === tree.label_column)
  const scales = useMemo(() => familyScales(tree.columns, (key) => tree.rows.map((row) => row[key] ?? null)), [tree])
  const rows = useVirtualizer({
    count: nodes.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 16,
  })
  const { scrollToIndex } = rows
  const items = usePrinting()
    ? nodes.slice(0, MOST_PRINTED).map((_, index) => ({ index, start: index * ROW }))
    : rows.getVirtualItems()
  useEffect(() => {
    const at = nodes.indexOf(selected)
    if (at >= 0) scrollToIndex(at, { align: 'auto' })
  }, [selected, nodes, scrollToIndex])

  const toggle = (node: number) => {
    const next = new Set(open)
    if (!next.delete(node)) next.add(node)
    onOpen(next)
  }
  const onKey = (event: KeyboardEvent) => {
    const at = nodes.indexOf(selected)
    const node = nodes[at] ?? nodes[0]
    if (event.key === 'ArrowDown') onSelect(nodes[Math.min(nodes.length - 1, at + 1)])
    else if (event.key === 'ArrowUp') onSelect(nodes[Math.max(0, at - 1)])
    else if (event.key === 'ArrowRight' && parents[node] && !open.has(node)) toggle(node)
    else if (event.key === 'ArrowLeft' && open.has(node)) toggle(node)
    else if (event.key === 'ArrowLeft' && tree.parent[node] >= 0) onSelect(tree.parent[node])
    else if (event.key === 'Enter' || event.key === ' ') toggle(node)
    else return
    event.preventDefault()
  }
  const widths = useMemo(() => columns.map((column) => widthOf(column, tree.rows)), [tree, columns])
  const atLeast = (needs: (title: string, unit: Unit) => number) =>
    columns.map(({ metric: { title, unit } }, i) => Math.min(widths[i], Math.max(NARROW_PX, needs(title, unit) * 6.5)))
  const withOthers = (of: readonly number[]) => of.reduce((sum, width) => sum + width + 8, extra ? extra.width + 8 : 0)
  const least = atLeast((title) => Math.max(...title.split(' ').map(({ length }) => length)))
  const minWidth = withOthers(least) + NAME_PX + 32
  const longest = useMemo(
    () =>
      nodes.reduce(
        (most, node) => Math.max(most, Math.min(depth[node], DEEPEST) * 16 + labels[node].length * CHARACTER_PX + 26),
        0,
      ),
    [nodes, depth, labels],
  )
  const name = `max(${NAME_PX}px, min(${Math.min(WIDE_NAME_PX, Math.ceil(longest))}px, 100% - ${withOthers(atLeast(twoLines))}px))`
  const template = `minmax(${name}, 1fr) ${extra ? `${extra.width}px` : ''} ${widths.map((width, i) => `minmax(${least[i]}px, ${width}px)`).join(' ')}`
  return (
    <div
      className={css.tree}
      ref={scroller}
      style={{ maxHeight: rows.getTotalSize() + AROUND, flexBasis: Math.min(LEAST, rows.getTotalSize() + AROUND) }}
    >
      <div className={css.head} style={{ gridTemplateColumns: template, minWidth }}>
        <span className={css.first}>
          <span aria-hidden="true">{label?.metric.title ?? 'Name'}</span>
          {parents.includes(true) && (
            <>
              <ActionIcon
                size="xs"
                variant="subtle"
                color="gray"
                aria-label="Open all rows"
                title="Open all rows"
                onClick={() => onOpen(new Set(tree.parent.filter((parent) => parent >= 0)))}
              >
                <OpenAllIcon />
              </ActionIcon>
              <ActionIcon
                size="xs"
                variant="subtle"
                color="gray"
                aria-label="Close all rows"
                title="Close all rows"
                onClick={() => onOpen(new Set())}
              >
                <CloseAllIcon />
              </ActionIcon>
            </>
          )}
        </span>
        {extra && (
          <Tooltip label={extra.help}>
            <span aria-hidden="true">{extra.title}</span>
          </Tooltip>
        )}
        {columns.map(({ metric }) => (
          <Tooltip key={metric.key} label={<MetricHelp metric={metric} />}>
            <span aria-hidden="true" className={isNumeric(metric.unit) ? textCss.right : undefined}>
              {metric.title} {scales.get(metric.key)?.symbol && <small>({scales.get(metric.key)?.symbol})</small>}
            </span>
          </Tooltip>
        ))}
      </div>
      <div
        role="tree"
        aria-label={tree.title}
        tabIndex={0}
        className={css.body}
        style={{ height: rows.getTotalSize(), minWidth }}
        onKeyDown={onKey}
        aria-activedescendant={selected >= 0 ? `node-${selected}` : undefined}
      >
        {items.map((item) => {
          const node = nodes[item.index]
          const row = tree.rows[node]
          const name = String(row[tree.label_column] ?? '')
          const classes = [css.row]
          if (node === selected) classes.push(css.selected)
          if (match && !match(name)) classes.push(css.dim)
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled by the tree
            <div
              key={node}
              id={`node-${node}`}
              role="treeitem"
              aria-level={depth[node] + 1}
              aria-expanded={parents[node] ? open.has(node) : undefined}
              aria-selected={node === selected}
              className={classes.join(' ')}
              style={{ transform: `translateY(${item.start}px)`, gridTemplateColumns: template }}
              onClick={() => onSelect(node)}
            >
              <span className={css.name} style={{ paddingLeft: Math.min(depth[node], DEEPEST) * 16 }}>
                {parents[node] ? (
                  <button
                    type="button"
                    tabIndex={-1}
                    aria-label={open.has(node) ? 'Close' : 'Open'}
                    onClick={(event) => {
                      event.stopPropagation()
                      toggle(node)
                    }}
                  >
                    {open.has(node) ? <ChevronDown /> : <ChevronRight />}
                  </button>
                ) : (
                  <i />
                )}
                <span className={textCss.mono} title={name}>
                  {shortenMiddle(labels[node], 70)}
                </span>
              </span>
              {extra?.cell(row)}
              {columns.map((column) => (
                <TreeCell
                  key={column.metric.key}
                  column={column}
                  value={row[column.metric.key] ?? null}
                  scale={scales.get(column.metric.key)}
                />
              ))}
            </div>
          )
        })}
      </div>
    </div>
  )
}
