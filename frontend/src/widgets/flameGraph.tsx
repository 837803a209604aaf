// The flame graph of a tree.
import { type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from 'react'
import type { Tree } from '../api/payloads'
import {
  drawFlameGraph,
  type FlameScene,
  flameModel,
  LEVEL,
  lineCount,
  lineOf,
  neighbour,
  nodeAt,
} from '../canvas/flameGraph'
import { fitCanvas as sharpen } from '../canvas/surface'
import { format } from '../lib/format'
import type { Row } from '../lib/tableRows'
import { useTheme } from './basics'
import { FloatingTooltip } from './floatingTooltip'
import { useWidth } from './useSize'
import css from './flameGraph.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

/** Deeper levels exceed the canvas limit and appear in the table only. */
const MAX_LEVELS = 400

export function FlameGraph(props: {
  tree: Tree
  valueKey: string
  /** Plural noun of the nodes. */
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
  const canvas = useRef<HTMLCanvasElement>(null)
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const [hover, setHover] = useState<{ node: number; x: number; y: number } | null>(null)
  const model = useMemo(
    () =>
      flameModel(
        tree.rows.map((row, i) => ({
          label: String(row[tree.label_column] ?? ''),
          parent: tree.parent[i],
          value: Number(row[valueKey] ?? 0),
          category: categoryOf(row, valueKey),
        })),
      ),
    [tree, valueKey, categoryOf],
  )
  const found = useMemo(() => (match ? model.nodes.map((node) => match(node.label)) : null), [model, match])
  const height = Math.max(LEVEL, Math.min(lineCount(model, zoom), MAX_LEVELS) * LEVEL)
  const line = selected < 0 ? -1 : lineOf(model, zoom, selected)
  const mark = useRef<HTMLSpanElement>(null)
  // biome-ignore lint/correctness/useExhaustiveDependencies: another line, or another node in it, is to be in sight
  useEffect(() => {
    if (line >= 0) mark.current?.scrollIntoView({ block: 'nearest' })
  }, [line, selected])
  const scene: FlameScene = { model, found, zoom, selected, hover: hover?.node ?? -1, width, theme }
  useEffect(() => {
    if (!canvas.current || width === 0) return
    const context = sharpen(canvas.current, width, height)
    if (context) drawFlameGraph(context, scene, height)
  })
  const find = (event: PointerEvent) => nodeAt(scene, event.nativeEvent.offsetX, event.nativeEvent.offsetY)
  const onKey = (event: KeyboardEvent) => {
    if (event.key.startsWith('Arrow')) onSelect(neighbour(model, selected, event.key))
    else if (event.key === 'Enter') onZoom(selected)
    else if (event.key === 'Escape' || event.key === 'Backspace') onZoom(zoom < 0 ? -1 : tree.parent[zoom])
    else return
    event.preventDefault()
  }
  const text = (node: number) => {
    const metrics = tree.columns.filter(({ metric }) => metric.key !== tree.label_column && metric.unit !== 'bool')
    return metrics.map(({ metric }) => ({
      title: metric.title,
      value: format(tree.rows[node][metric.key] ?? null, metric.unit),
    }))
  }
  const metric = tree.columns.find((column) => column.metric.key === valueKey)?.metric
  const title = metric?.title ?? valueKey
  return (
    <div data-testid="icicle" className={css.icicle} ref={frame}>
      {model.total === 0 && (
        <div className={textCss.none}>
          {title} is 0 everywhere; there are no {noun} to draw.
        </div>
      )}
      <canvas
        ref={canvas}
        style={{ width: '100%', height }}
        tabIndex={0}
        role="application"
        aria-label={`Flame graph of ${tree.title} by ${title}. Arrow keys select, Enter zooms in, Escape zooms out. The table has the same numbers.`}
        onPointerMove={(event) => {
          const node = find(event)
          setHover(node < 0 ? null : { node, x: event.clientX, y: event.clientY })
        }}
        onPointerLeave={() => setHover(null)}
        onPointerUp={(event) => {
          const node = find(event)
          if (node < 0) return
          setHover(null) // another picture comes
          onSelect(node)
          onZoom(node === zoom ? tree.parent[node] : node)
        }}
        onKeyDown={onKey}
      />
      <span ref={mark} className={css.mark} style={{ top: Math.max(0, line) * LEVEL }} />
      <span className={textCss.sr} role="status">
        {selected >= 0 &&
          `${tree.rows[selected][tree.label_column]}: ${format(tree.rows[selected][valueKey] ?? null, metric?.unit ?? 'ns')}`}
      </span>
      {hover && (
        <FloatingTooltip x={hover.x} y={hover.y}>
          <div className={`${tipCss.head} ${textCss.mono}`}>
            {String(tree.rows[hover.node][tree.label_column] ?? '')}
          </div>
          {text(hover.node).map((line) => (
            <div className={tipCss.row} key={line.title}>
              <span className={tipCss.name}>{line.title}</span>
              <span className={textCss.num}>{line.value}</span>
            </div>
          ))}
        </FloatingTooltip>
      )}
    </div>
  )
}
