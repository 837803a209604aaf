// Tensors over address and time on a canvas.
import { type CSSProperties, type KeyboardEvent, type PointerEvent, useEffect, useMemo, useRef, useState } from 'react'
import type { MemoryFlowMap } from '../api/payloads'
import {
  addressAt,
  drawFlow,
  drawingOrder,
  FlowAxes,
  neighbour,
  tensorAt,
  tensorsWithLabels,
} from '../canvas/memoryFlow'
import { fitCanvas as sharpen } from '../canvas/surface'
import { counted, format } from '../lib/format'
import { useTheme } from './basics'
import { FloatingTooltip } from './floatingTooltip'
import { useWidth } from './useSize'
import css from './memoryFlow.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

const DRAG_PX = 5

/** Times, and places on the axis of addresses. */
export interface FlowPart {
  start: number
  end: number
  low: number
  high: number
}

interface Point {
  x: number
  y: number
}

export function MemoryFlowPicture(props: {
  flow: MemoryFlowMap
  height: number
  byLife: boolean
  moment: number
  /** Number of a tensor; -1 = none. */
  selected: number
  onSelect: (row: number) => void
  onPart: (part: FlowPart) => void
  onAll: () => void
}) {
  const { flow, height, byLife, moment, onSelect, onPart, onAll } = props
  const theme = useTheme()
  const frame = useRef<HTMLDivElement>(null)
  const canvas = useRef<HTMLCanvasElement>(null)
  const width = useWidth(frame)
  const [hover, setHover] = useState<{ at: number; x: number; y: number } | null>(null)
  const [drag, setDrag] = useState<{ from: Point; to: Point } | null>(null)
  const order = useMemo(() => drawingOrder(flow), [flow])
  const axes = useMemo(() => new FlowAxes({ flow, width, height }), [flow, width, height])
  const labels = useMemo(() => tensorsWithLabels(axes, order), [axes, order])
  const selected = props.selected < 0 ? -1 : flow.row.indexOf(props.selected)
  const hovered = hover && hover.at < flow.row.length ? hover.at : -1
  useEffect(() => {
    if (!canvas.current || width === 0) return
    const context = sharpen(canvas.current, width, height)
    if (context)
      drawFlow(context, { flow, width, height, order, labels, theme, byLife, hover: hovered, selected, moment })
  })
  const point = (event: PointerEvent): Point => ({ x: event.nativeEvent.offsetX, y: event.nativeEvent.offsetY })
  const rowOf = (at: number) => (at < 0 ? -1 : flow.row[at])
  const finish = (event: PointerEvent) => {
    const from = drag?.from
    setDrag(null)
    if (!from) return
    const to = point(event)
    if (Math.max(Math.abs(to.x - from.x), Math.abs(to.y - from.y)) < DRAG_PX) {
      onSelect(rowOf(tensorAt(axes, order, to.x, to.y)))
      return
    }
    const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)]
    const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y, to.y)]
    // A flat drag zooms time only, an upright one memory only.
    const [isFlat, isUpright] = [bottom - top < DRAG_PX, right - left < DRAG_PX]
    onPart({
      start: isUpright ? flow.start_ns : axes.timeAt(left),
      end: isUpright ? flow.end_ns : axes.timeAt(right),
      low: isFlat ? flow.low_bytes : axes.placeAt(top),
      high: isFlat ? flow.high_bytes : axes.placeAt(bottom),
    })
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') onSelect(-1)
    else if (event.key.startsWith('Arrow')) onSelect(rowOf(neighbour(flow, selected, event.key)))
    else return
    event.preventDefault()
  }
  const isMarking = drag !== null && Math.max(...sides(drag)) >= DRAG_PX
  return (
    <div ref={frame} className={css.frame} style={{ height }} data-testid="memory-flow" data-tensors={flow.row.length}>
      <canvas
        ref={canvas}
        className={css.canvas}
        style={{ height }}
        tabIndex={0}
        role="application"
        aria-label={`${counted(flow.row.length, 'tensor')} over memory and time, from ${format(flow.start_ns, 'ns')} to ${format(flow.end_ns, 'ns')}. Arrow keys select a tensor, Escape deselects. The tables have the same numbers.`}
        onPointerDown={(event) => {
          if (event.button !== 0) return
          event.currentTarget.setPointerCapture(event.pointerId)
          setDrag({ from: point(event), to: point(event) })
        }}
        onPointerMove={(event) => {
          const to = point(event)
          if (drag) setDrag({ ...drag, to })
          const at = tensorAt(axes, order, to.x, to.y)
          setHover(at < 0 ? null : { at, x: event.clientX, y: event.clientY })
        }}
        onPointerLeave={() => setHover(null)}
        onPointerUp={finish}
        onPointerCancel={() => setDrag(null)}
        onDoubleClick={onAll}
        onKeyDown={onKey}
      />
      {isMarking && <i className={css.drag} style={boxOf(drag)} />}
      <span className={textCss.sr} role="status">
        {selected >= 0 && `${nameOf(flow, selected)}, ${format(flow.size_bytes[selected], 'bytes')}`}
      </span>
      {hover && hovered >= 0 && !isMarking && <Tip flow={flow} {...hover} />}
    </div>
  )
}

const sides = ({ from, to }: { from: Point; to: Point }) => [Math.abs(to.x - from.x), Math.abs(to.y - from.y)]

function boxOf(drag: { from: Point; to: Point }): CSSProperties {
  const [width, height] = sides(drag)
  return { left: Math.min(drag.from.x, drag.to.x), top: Math.min(drag.from.y, drag.to.y), width, height }
}

const nameOf = (flow: MemoryFlowMap, at: number) => flow.tensors[flow.tensor[at]] || '(no name)'

function Tip({ flow, at, x, y }: { flow: MemoryFlowMap; at: number; x: number; y: number }) {
  const [made, released] = [flow.created_ns[at], flow.released_ns[at]]
  const lines: [string, string][] = [
    ['Size', format(flow.size_bytes[at], 'bytes')],
    ['Layout', flow.layouts[flow.layout[at]]],
    ['Allocated at', format(made, 'ns')],
    ['Released at', flow.is_released[at] ? format(released, 'ns') : 'not during the recording'],
    ['Lifetime', format(released - made, 'ns')],
    ['Address', addressAt(flow, flow.offset[at]) ?? ''],
  ]
  return (
    <FloatingTooltip x={x} y={y}>
      <div className={`${tipCss.head} ${textCss.mono}`}>{nameOf(flow, at)}</div>
      {lines.map(([name, value]) => (
        <div className={tipCss.row} key={name}>
          <span className={tipCss.name}>{name}</span>
          <span className={textCss.num}>{value}</span>
        </div>
      ))}
    </FloatingTooltip>
  )
}
