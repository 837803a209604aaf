// A tree as flame graph and table, with one selection.

import { ActionIcon } from '@mantine/core'
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import type { Metric, Tree } from '../api/payloads'
import { categoryColor } from '../lib/color'
import { inSentence } from '../lib/deviceWords'
import { counted, format } from '../lib/format'
import { matcher } from '../lib/search'
import type { Row } from '../lib/tableRows'
import { type TreeOrder, treeSequence } from '../lib/treeOrder'
import { stepHit, treeHits } from '../lib/treeSearch'
import { showHits } from '../state/links'
import { setRoute, useRoute } from '../state/urlState'
import { Card, SmallButton, Swatch } from '../widgets/basics'
import { Choice } from '../widgets/choice'
import { FlameGraph } from '../widgets/flameGraph'
import { DownIcon, UpIcon } from '../widgets/icons'
import { type TreeExtra, TreeTable } from '../widgets/tree'
import { SearchBox } from './tableSection'
import colorKeyCss from '../widgets/colorKey.module.css'
import textCss from '../widgets/text.module.css'
import toolbarCss from './toolbar.module.css'
import css from './treePage.module.css'
import frameCss from './viewFrame.module.css'

const ORDERS: { value: TreeOrder; label: string }[] = [
  { value: '', label: 'By execution order' },
  { value: 'name', label: 'By name' },
  { value: 'value', label: 'By time' },
]

/** The first levels open, as long as they fit on a screen. */
export function firstOpen(tree: Tree, most = 24): ReadonlySet<number> {
  const roots = tree.parent.flatMap((parent, i) => (parent < 0 ? [i] : []))
  const open = new Set<number>()
  let rows = roots.length
  const queue = [...roots]
  for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
    const children = tree.parent.flatMap((parent, i) => (parent === node ? [i] : []))
    // Equal layers stay one row.
    if (children.length === 0 || tree.rows[node].layers) continue
    if (rows + children.length > most && open.size > 0) break
    rows += children.length
    open.add(node)
    queue.push(...children)
  }
  return open
}

const STEPS = [
  { label: 'Previous match', keys: 'Shift+Enter', back: true, Icon: UpIcon },
  { label: 'Next match', keys: 'Enter', back: false, Icon: DownIcon },
]

export function TreePage(props: {
  tree: Tree
  lead: ReactNode
  trail?: ReactNode
  /** Something to know before one looks. */
  note?: ReactNode
  noun: string
  /** Event filters of a node; empty if it has no events. */
  whereOf: (row: Row) => string[]
  /** The rows of the table can be put into another order than that in which they came. */
  ordered?: boolean
  /** The chart is the page, and the table its footnote. */
  tall?: boolean
  categoryOf: (row: Row, value: string) => string
  /** Label of a node's colour; absent: one colour. */
  labelOf?: (row: Row) => string
  details?: (row: Row) => ReactNode
  extra?: TreeExtra
  actions?: (row: Row) => ReactNode
}) {
  const { tree, lead, trail, note, noun, whereOf, ordered, tall, categoryOf, labelOf, details, extra, actions } = props
  const route = useRoute()
  const [opened, setOpened] = useState<{ tree: Tree; nodes: ReadonlySet<number> } | null>(null)
  const first = useMemo(() => firstOpen(tree), [tree])
  // Open rows of another tree do not apply.
  const open = opened?.tree === tree ? opened.nodes : first
  const before = useRef(tree)
  useEffect(() => {
    // Nor do node numbers: other steps or choices renumber nodes.
    if (before.current !== tree) setRoute({ row: '', zoom: '' })
    before.current = tree
  }, [tree])
  const setOpen = (nodes: ReadonlySet<number>) => setOpened({ tree, nodes })
  const value = tree.value_columns.find((key) => key === route.width) ?? tree.value_columns[0]
  const selected = route.row && Number(route.row) < tree.rows.length ? Number(route.row) : -1
  const zoom = route.zoom && Number(route.zoom) < tree.rows.length ? Number(route.zoom) : -1
  const order = ORDERS.find(({ value: known }) => ordered && known === route.sort)?.value ?? ''
  const sequence = useMemo(
    () =>
      treeSequence(
        tree.parent,
        tree.rows.map((row) => String(row[tree.label_column] ?? '')),
        tree.rows.map((row) => Number(row[value] ?? 0)),
        order,
      ),
    [tree, value, order],
  )
  const match = useMemo(() => matcher(route.search ?? ''), [route.search])
  const found = useMemo(
    () =>
      match &&
      treeHits(
        tree.rows.map((row) => String(row[tree.label_column] ?? '')),
        tree.parent,
        tree.rows.map((row) => Number(row[value] ?? 0)),
        match,
      ),
    [tree, value, match],
  )
  /** Positions of hits, top to bottom. */
  const places = useMemo(() => {
    const hits = new Set(found?.nodes)
    return sequence.flatMap((node, place) => (hits.has(node) ? [place] : []))
  }, [found, sequence])
  const select = (node: number, change: Record<string, string> = {}) => {
    const next = new Set(open)
    for (let at = tree.parent[node]; at >= 0; at = tree.parent[at]) next.add(at)
    if (next.size !== open.size) setOpen(next)
    setRoute({ ...change, row: String(node) })
  }
  const search = (text: string) => {
    const matches = matcher(text)
    if (matches) {
      const next = new Set(open)
      tree.rows.forEach((row, i) => {
        if (matches(String(row[tree.label_column] ?? '')))
          for (let at = tree.parent[i]; at >= 0; at = tree.parent[at]) next.add(at)
      })
      setOpen(next)
    }
    setRoute({ search: text })
  }
  /** The next hit; leaves a zoom that hides it. */
  const step = (back: boolean) => {
    const node = sequence[stepHit(places, sequence.indexOf(selected), back)]
    if (node === undefined) return
    let at = node
    while (at >= 0 && at !== zoom) at = tree.parent[at]
    select(node, at < 0 ? { zoom: '' } : {})
  }
  const titleOf = (key: string) => tree.columns.find((column) => column.metric.key === key)?.metric
  // In the chart's head, whose height is fixed, so that nothing moves while typing.
  const hits = found && (
    <>
      <span
        data-testid="count"
        className={textCss.mute}
        title={`${titleOf(value)?.unit === 'bytes' ? 'Bytes' : 'Time'} of all matches; nested matches count once`}
      >
        {found.nodes.includes(selected) && `${places.indexOf(sequence.indexOf(selected)) + 1} / `}
        {found.nodes.length.toLocaleString('en-US')} of {tree.rows.length.toLocaleString('en-US')} match ·{' '}
        {format(found.sum, tree.columns.find(({ metric }) => metric.key === value)?.metric.unit ?? 'ns')}
        {found.total > 0 && ` (${format(found.sum / found.total, 'ratio')})`}
      </span>
      {STEPS.map(({ label, keys, back, Icon }) => (
        <ActionIcon
          key={label}
          size="sm"
          variant="default"
          aria-label={label}
          title={`${label} (${keys})`}
          disabled={found.nodes.length === 0}
          onClick={() => step(back)}
        >
          <Icon />
        </ActionIcon>
      ))}
    </>
  )
  const name = selected >= 0 ? String(tree.rows[selected][tree.label_column] ?? '') : ''
  return (
    <div className={frameCss.page}>
      {note}
      <div data-testid="toolbar" className={toolbarCss.toolbar}>
        {lead}
        {tree.value_columns.length > 1 && (
          <Choice
            size="sm"
            label="Width of the flame graph"
            value={value}
            onChange={(next) => setRoute({ width: next === tree.value_columns[0] ? '' : next })}
            options={tree.value_columns.map((key) => ({ value: key, label: titleOf(key)?.title ?? key }))}
          />
        )}
        {ordered && (
          <Choice
            size="sm"
            label="Order of the rows"
            value={order}
            onChange={(next) => setRoute({ sort: next, desc: '' })}
            options={ORDERS}
          />
        )}
        {/* biome-ignore lint/a11y/noStaticElementInteractions: the box inside takes the keys */}
        <span
          className={css.search}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && found) step(event.shiftKey)
          }}
        >
          <SearchBox value={route.search ?? ''} onChange={search} placeholder={`Search ${noun}, text or /regex/`} />
        </span>
        <span data-testid={found ? undefined : 'count'} className={`${toolbarCss.count} ${textCss.mute}`}>
          {counted(tree.rows.filter((row) => !row.layers).length, noun.replace(/s$/, ''), noun)}
          {tree.total_nodes > tree.rows.length && ` of ${tree.total_nodes.toLocaleString('en-US')}`}
        </span>
      </div>
      {value && (
        <Card
          title="Flame graph"
          subtitle={`width = ${inSentence(widthText(titleOf(value)) || value)} · click to zoom`}
          actions={
            <span className={textCss.row}>
              {hits}
              {name && whereOf(tree.rows[selected]).length > 0 && (
                <SmallButton onClick={() => showHits(whereOf(tree.rows[selected]), String(selected))}>
                  Show in timeline
                </SmallButton>
              )}
              {name && actions?.(tree.rows[selected])}
              {zoom >= 0 && (
                <SmallButton onClick={() => setRoute({ zoom: '' })}>
                  Zoom out of {String(tree.rows[zoom][tree.label_column] ?? '')} (
                  {format(tree.rows[zoom][value] ?? null, titleOf(value)?.unit ?? 'ns')})
                </SmallButton>
              )}
              {trail}
            </span>
          }
        >
          <div className={tall ? `${css.frame} ${css.tall}` : css.frame}>
            <FlameGraph
              tree={tree}
              valueKey={value}
              noun={noun}
              categoryOf={categoryOf}
              match={match}
              zoom={zoom}
              onZoom={(node) => setRoute({ zoom: node < 0 ? '' : String(node) }, true)}
              selected={selected}
              onSelect={select}
            />
          </div>
          {labelOf && <ColorKey tree={tree} value={value} categoryOf={categoryOf} labelOf={labelOf} />}
          {details && selected >= 0 && details(tree.rows[selected])}
        </Card>
      )}
      <TreeTable
        tree={tree}
        open={open}
        onOpen={setOpen}
        selected={selected}
        onSelect={select}
        match={match}
        sequence={sequence}
        extra={extra}
      />
    </div>
  )
}

const widthText = (metric?: Metric) =>
  metric && `${metric.title}${metric.unit === 'ns' && !/time/i.test(metric.title) ? ' time' : ''}`

const MOST = 10

function ColorKey(props: {
  tree: Tree
  value: string
  categoryOf: (row: Row, value: string) => string
  labelOf: (row: Row) => string
}) {
  const { tree, value, categoryOf, labelOf } = props
  const entries = useMemo(() => {
    const own = tree.rows.map((row) => Number(row[value] ?? 0))
    const whole = [...own]
    tree.parent.forEach((parent, i) => {
      if (parent >= 0) own[parent] -= whole[i]
    })
    const found = new Map<string, { color: string; time: number }>()
    tree.rows.forEach((row, i) => {
      const label = labelOf(row)
      const before = found.get(label) ?? { color: categoryColor(categoryOf(row, value)), time: 0 }
      found.set(label, { ...before, time: before.time + own[i] })
    })
    return [...found].sort(([, one], [, other]) => other.time - one.time)
  }, [tree, value, categoryOf, labelOf])
  const left = entries.length - MOST
  return (
    <ul className={colorKeyCss.key} aria-label="Colors">
      {entries.slice(0, MOST).map(([label, { color }]) => (
        <li key={label}>
          <Swatch color={color} />
          {label}
        </li>
      ))}
      {left > 0 && <li>and {left} more</li>}
    </ul>
  )
}
