// A tree as a table: rows open and close, one row can be chosen together with the icicle chart.
import { ActionIcon, Tooltip } from '@mantine/core'
import { useVirtualizer } from '@tanstack/react-virtual'
import { type KeyboardEvent, type ReactNode, useEffect, useMemo, useRef } from 'react'
import type { Tree } from '../api/payloads'
import { familyScales, isNumeric } from '../lib/format'
import { shortenMiddle } from '../lib/names'
import type { Row } from '../lib/pages'
import { MetricHelp, Value } from './basics'
import { ChevronDown, ChevronRight, CloseAllIcon, OpenAllIcon } from './icons'
import textCss from './text.module.css'
import css from './tree.module.css'

const ROW = 28
/** Levels that are indented: the names of deep stacks stay in sight. */
const DEEPEST = 14

/** Positions of nodes whose ancestors are all open. */
export function visibleNodes(tree: Tree, open: ReadonlySet<number>): number[] {
  const shown: boolean[] = []
  return tree.parent.flatMap((parent, i) => {
    shown[i] = parent < 0 || (shown[parent] && open.has(parent))
    return shown[i] ? [i] : []
  })
}

export function depths(tree: Tree): number[] {
  const out: number[] = []
  tree.parent.forEach((parent, i) => {
    out[i] = parent < 0 ? 0 : out[parent] + 1
  })
  return out
}

export function hasChildren(tree: Tree): boolean[] {
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

export function TreeTable(props: {
  tree: Tree
  open: ReadonlySet<number>
  onOpen: (open: ReadonlySet<number>) => void
  selected: number
  onSelect: (node: number) => void
  match: ((name: string) => boolean) | null
  /** A column of pictures, before the numbers. */
  extra?: TreeExtra
}) {
  const { tree, open, onOpen, selected, onSelect, match, extra } = props
  const scroller = useRef<HTMLDivElement>(null)
  const nodes = useMemo(() => visibleNodes(tree, open), [tree, open])
  const depth = useMemo(() => depths(tree), [tree])
  const parents = useMemo(() => hasChildren(tree), [tree])
  const columns = tree.columns.filter((column) => !column.hidden && column.metric.key !== tree.label_column)
  const label = tree.columns.find((column) => column.metric.key === tree.label_column)
  const scales = useMemo(() => familyScales(tree.columns, (key) => tree.rows.map((row) => row[key] ?? null)), [tree])
  const rows = useVirtualizer({
    count: nodes.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW,
    overscan: 16,
  })
  const { scrollToIndex } = rows
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
  const minWidth = 260 + columns.length * 97 + (extra ? extra.width + 8 : 0)
  const widths = columns.map((column) => (isNumeric(column.metric.unit) ? '88px' : '120px'))
  const template = `minmax(220px, 1fr) ${extra ? `${extra.width}px` : ''} ${widths.join(' ')}`
  return (
    <div className={css.tree} ref={scroller}>
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
        {rows.getVirtualItems().map((item) => {
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
                  {shortenMiddle(name, 70)}
                </span>
              </span>
              {extra?.cell(row)}
              {columns.map(({ metric }) => (
                <span key={metric.key} className={isNumeric(metric.unit) ? textCss.right : undefined}>
                  <Value value={row[metric.key] ?? null} unit={metric.unit} scale={scales.get(metric.key)} bare />
                </span>
              ))}
            </div>
          )
        })}
      </div>
    </div>
  )
}
