// The flame graph of a tree.
import { useEffect, useMemo, useRef } from 'react'
import type { Tree } from '../api/payloads'
import { drawFlameGraph, flameModel, LEVEL, lineCount, lineOf, neighbour, nodeAt } from '../canvas/flameGraph'
import { format } from '../lib/format'
import { frameLabels } from '../lib/frameLabels'
import type { Row } from '../lib/tableRows'
import { useTheme } from './basics'
import { TipLines } from './floatingTooltip'
import { Picture } from './picture'
import { useWidth } from './useSize'
import css from './flameGraph.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

/** Deeper levels exceed the canvas limit and appear in the table only. */
const MAX_LEVELS = 400

export function FlameGraph(props: {
  tree: Tree
  valueKey: string
  noun: string
  categoryOf: (row: Row, value: string) => string
  /** Names to bring out; null = nothing is searched. */
  match: ((name: string) => boolean) | null
  zoom: number
  onZoom: (node: number) => void
  selected: number
  onSelect: (node: number) => void
}) {
  const { tree, valueKey, noun, categoryOf, match, zoom, onZoom, selected, onSelect } = props
  const theme = useTheme()
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const model = useMemo(() => {
    const labels = frameLabels(tree)
    return flameModel(
      tree.rows.map((row, i) => ({
        label: labels[i],
        parent: tree.parent[i],
        value: Number(row[valueKey] ?? 0),
        category: categoryOf(row, valueKey),
      })),
    )
  }, [tree, valueKey, categoryOf])
  const found = useMemo(
    () => (match ? tree.rows.map((row) => match(String(row[tree.label_column] ?? ''))) : null),
    [tree, match],
  )
  const height = Math.max(LEVEL, Math.min(lineCount(model, zoom), MAX_LEVELS) * LEVEL)
  const line = selected < 0 ? -1 : lineOf(model, zoom, selected)
  const mark = useRef<HTMLSpanElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another line, or another node in it, is to be in sight
  useEffect(() => {
    if (line >= 0) mark.current?.scrollIntoView({ block: 'nearest' })
  }, [line, selected])
  const scene = { model, found, zoom, selected, theme }
  const onKey = (key: string) => {
    if (key.startsWith('Arrow')) onSelect(neighbour(model, selected, key))
    else if (key === 'Enter') onZoom(selected)
    else if (key === 'Escape' || key === 'Backspace') onZoom(zoom < 0 ? -1 : tree.parent[zoom])
    else return false
    return true
  }
  const linesOf = (node: number) =>
    tree.columns
      .filter(({ metric }) => metric.key !== tree.label_column && metric.unit !== 'bool')
      .map(({ metric }) => [metric.title, format(tree.rows[node][metric.key] ?? null, metric.unit)] as const)
  const metric = tree.columns.find((column) => column.metric.key === valueKey)?.metric
  const title = metric?.title ?? valueKey
  return (
    <div data-testid="icicle" className={css.icicle} ref={frame}>
      {model.total === 0 && (
        <div className={textCss.none}>
          {title} is 0 everywhere; there are no {noun} to draw.
        </div>
      )}
      <Picture<number>
        height={height}
        subject={model}
        label={`Flame graph of ${tree.title} by ${title}. Arrow keys select, Enter zooms in, Escape zooms out. The table has the same numbers.`}
        draw={(context, width, hover) => drawFlameGraph(context, { ...scene, width, hover: hover ?? -1 }, height)}
        hit={({ x, y }) => {
          const node = nodeAt({ model, zoom, width }, x, y)
          return node < 0 ? null : node
        }}
        onClick={(node) => {
          if (node === null) return
          onSelect(node)
          onZoom(node === zoom ? tree.parent[node] : node)
        }}
        onKey={onKey}
        spoken={
          selected < 0
            ? null
            : `${tree.rows[selected][tree.label_column]}: ${format(tree.rows[selected][valueKey] ?? null, metric?.unit ?? 'ns')}`
        }
        tip={(node) => (
          <>
            <div className={`${tipCss.head} ${textCss.mono}`}>{String(tree.rows[node][tree.label_column] ?? '')}</div>
            <TipLines lines={linesOf(node)} />
          </>
        )}
      />
      <span ref={mark} className={css.mark} style={{ top: Math.max(0, line) * LEVEL }} />
    </div>
  )
}
