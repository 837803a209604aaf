// Tensors over address and time on a canvas.
import { type CSSProperties, useMemo, useRef, useState } from 'react'
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
import type { Point } from '../canvas/viewport'
import { counted, format } from '../lib/format'
import { useTheme } from './basics'
import { TipLines } from './floatingTooltip'
import { Picture } from './picture'
import { useWidth } from './useSize'
import css from './memoryFlow.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

/** A drag this flat marks one axis only. */
const FLAT_PX = 5

/** Times, and places on the axis of addresses. */
export interface FlowPart {
  start: number
  end: number
  low: number
  high: number
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
  const width = useWidth(frame)
  const [box, setBox] = useState<CSSProperties | null>(null)
  const order = useMemo(() => drawingOrder(flow), [flow])
  const axes = useMemo(() => new FlowAxes({ flow, width, height }), [flow, width, height])
  const labels = useMemo(() => tensorsWithLabels(axes, order), [axes, order])
  const selected = props.selected < 0 ? -1 : flow.row.indexOf(props.selected)
  const rowOf = (at: number) => (at < 0 ? -1 : flow.row[at])
  const mark = (from: Point, to: Point) => {
    const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)]
    const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y, to.y)]
    // A flat drag zooms time only, an upright one memory only.
    const [isFlat, isUpright] = [bottom - top < FLAT_PX, right - left < FLAT_PX]
    onPart({
      start: isUpright ? flow.start_ns : axes.timeAt(left),
      end: isUpright ? flow.end_ns : axes.timeAt(right),
      low: isFlat ? flow.low_bytes : axes.placeAt(top),
      high: isFlat ? flow.high_bytes : axes.placeAt(bottom),
    })
  }
  const onKey = (key: string) => {
    if (key === 'Escape') onSelect(-1)
    else if (key.startsWith('Arrow')) onSelect(rowOf(neighbour(flow, selected, key)))
    else return false
    return true
  }
  return (
    <div ref={frame} className={css.frame} style={{ height }} data-testid="memory-flow" data-tensors={flow.row.length}>
      <Picture<number>
        className={css.canvas}
        height={height}
        subject={flow}
        label={`${counted(flow.row.length, 'tensor')} over memory and time, from ${format(flow.start_ns, 'ns')} to ${format(flow.end_ns, 'ns')}. Arrow keys select a tensor, Escape deselects. The tables have the same numbers.`}
        draw={(context, width, hover) =>
          drawFlow(context, { flow, width, height, order, labels, theme, byLife, hover: hover ?? -1, selected, moment })
        }
        hit={({ x, y }) => {
          const at = tensorAt(axes, order, x, y)
          return at < 0 ? null : at
        }}
        onClick={(at) => onSelect(rowOf(at ?? -1))}
        onDoubleClick={onAll}
        onKey={onKey}
        startDrag={(from) => {
          let to = from
          return {
            move: (point) => {
              to = point
              setBox(boxOf(from, to))
            },
            end: () => {
              setBox(null)
              mark(from, to)
            },
          }
        }}
        spoken={selected < 0 ? null : `${nameOf(flow, selected)}, ${format(flow.size_bytes[selected], 'bytes')}`}
        tip={(at) => <Tip flow={flow} at={at} />}
      />
      {box && <i className={css.drag} style={box} />}
    </div>
  )
}

const boxOf = (from: Point, to: Point): CSSProperties => ({
  left: Math.min(from.x, to.x),
  top: Math.min(from.y, to.y),
  width: Math.abs(to.x - from.x),
  height: Math.abs(to.y - from.y),
})

const nameOf = (flow: MemoryFlowMap, at: number) => flow.tensors[flow.tensor[at]] || '(no name)'

function Tip({ flow, at }: { flow: MemoryFlowMap; at: number }) {
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
    <>
      <div className={`${tipCss.head} ${textCss.mono}`}>{nameOf(flow, at)}</div>
      <TipLines lines={lines} />
    </>
  )
}
