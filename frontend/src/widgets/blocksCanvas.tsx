// React wrapper of the active-memory timeline.
import { useEffect, useRef, useState } from 'react'
import { type BlockColoring, envelopeColor, lineOf } from '../canvas/blocks/colors'
import { BlocksEngine, type BlocksEvents, type BlocksModel } from '../canvas/blocks/engine'
import type { BlockSpot, HistoryLayer, HistoryMarks } from '../canvas/blocks/scene'
import { format } from '../lib/format'
import { type CodeFrame, parseStack, shortFrame } from '../lib/frames'
import { Swatch, useTheme } from './basics'
import { FloatingTooltip, TipLines } from './floatingTooltip'
import { useEngine, type Windowed } from './useEngine'
import css from './blocksCanvas.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

interface BlocksProps extends Windowed<BlocksEngine>, Omit<BlocksEvents, 'onHover'> {
  model: BlocksModel
  colors: BlockColoring
  marks: HistoryMarks
  selected: number | null
  /** A block's or segment's frames; empty if not recorded. */
  stackOf: (row: number, signal: AbortSignal) => Promise<string>
}

interface Hover {
  spot: BlockSpot
  color: string
  x: number
  y: number
}

export function BlocksCanvas(props: BlocksProps) {
  const { model, colors, marks, selected, engine } = props
  const theme = useTheme()
  const canvas = useRef<HTMLCanvasElement>(null)
  const [hover, setHover] = useState<Hover | null>(null)
  const latest = useRef(props)
  latest.current = props

  useEngine(canvas, model, props, (on) => {
    const events: BlocksEvents = {
      onView: (next, move) => latest.current.onView(next, move),
      onPick: (row) => latest.current.onPick(row),
      onMoment: (event) => latest.current.onMoment(event),
      onUndo: () => latest.current.onUndo(),
      onHover: (spot, at) => {
        const { block = null, tile } = spot ?? {}
        const color =
          tile && typeof block === 'number'
            ? made.scene.colors.cssOf(tile, block)
            : block === 'rest'
              ? theme.idle
              : envelopeColor(theme)
        setHover(spot && { spot, color, ...at })
      },
    }
    const made = new BlocksEngine(on, model, theme, latest.current.view, events)
    return made
  })
  // A new model has a new engine.
  // biome-ignore-start lint/correctness/useExhaustiveDependencies: see above
  useEffect(() => engine.current?.setLook(theme, colors), [theme, colors, model])
  useEffect(() => engine.current?.setMarks(marks), [marks, model])
  useEffect(() => engine.current?.setSelected(selected), [selected, model])
  // biome-ignore-end lint/correctness/useExhaustiveDependencies: see above
  return (
    <div data-testid="bands" className={css.bands}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label="Active memory timeline. W and S zoom, A and D or the arrow keys move. 0 shows everything, Z undoes the last zoom, M shows memory at the pointer's time. With a block selected, the arrow keys select its neighbors: up and down in the stack, left and right in allocation order. The table Blocks lists the same blocks."
      />
      {hover && <HoverTip {...hover} model={model} stackOf={props.stackOf} />}
    </div>
  )
}

/** Milliseconds that the pointer rests on a stack before it is asked for. */
const REST_MS = 120
const FRAMES = 8
const NO_FRAMES: readonly CodeFrame[] = []

const count = (value: number) => value.toLocaleString('en-US')

function linesOf({ tile, column, block }: BlockSpot, layer: HistoryLayer): [string, string][] {
  const event = tile.event[column]
  const lines: [string, string][] = []
  if (typeof block === 'number') {
    const [begin, freed, life] = [tile.begin[block], tile.freed[block], tile.life_ns[block]]
    lines.push(['Size', format(tile.size_bytes[block], 'bytes')])
    const state = freed >= 0 && freed <= event ? 'released, but a stream may still use it' : 'allocated'
    lines.push(['State', state])
    lines.push(['Allocated', begin < 0 ? 'before the recorded history' : `event ${count(begin)}`])
    lines.push(['Released', freed < 0 ? 'not in the recorded history' : `event ${count(freed)}`])
    if (life >= 0) lines.push(['Lifetime', format(life, 'ns')])
    const category = tile.categories[tile.category[block]]
    if (category) lines.push(['Category', category])
    const module = tile.modules[tile.stack[block]]
    if (module) lines.push(['Module', shortFrame(module, 40)])
  } else if (block === 'rest') {
    lines.push(['Sum', format(tile.rest_bytes[column], 'bytes')])
  } else if (block) {
    lines.push(['Peak so far', format(block.height_bytes[column], 'bytes')])
  }
  lines.push([layer === 'segments' ? 'All reserved' : 'All active', format(tile.active_bytes[column], 'bytes')])
  lines.push(['After event', event < 0 ? 'before the first event' : count(event)])
  if (tile.has_times) lines.push(['Time', format(tile.time_ns[column], 'ns')])
  return lines
}

/** Stacks that were asked for, by their number. */
const stacksByModel = new WeakMap<BlocksModel, Map<number, CodeFrame[]>>()

/** The hovered block's stack, once loaded. */
function useStack(
  { block, tile }: BlockSpot,
  model: BlocksModel,
  stackOf: BlocksProps['stackOf'],
): readonly CodeFrame[] {
  const [, setCount] = useState(0)
  const [row, stack] = typeof block === 'number' ? [tile.block[block], tile.stack_number[tile.stack[block]]] : [-1, -1]
  const stacks = stacksByModel.get(model) ?? new Map<number, CodeFrame[]>()
  stacksByModel.set(model, stacks)
  // biome-ignore lint/correctness/useExhaustiveDependencies: one block of a stack is as good as another
  useEffect(() => {
    if (stack < 0 || stacks.has(stack)) return
    const abort = new AbortController()
    const wait = setTimeout(() => {
      stackOf(row, abort.signal)
        .then((text) => {
          stacks.set(stack, parseStack(text))
          setCount((count) => count + 1)
        })
        // The tooltip works without the stack; the block's panel reports the error.
        .catch(() => {})
    }, REST_MS)
    return () => {
      clearTimeout(wait)
      abort.abort()
    }
  }, [stack, stacks])
  return stacks.get(stack) ?? NO_FRAMES
}

function HoverTip(props: Hover & { model: BlocksModel; stackOf: BlocksProps['stackOf'] }) {
  const { spot, color, x, y, model, stackOf } = props
  const { block, tile } = spot
  const frames = useStack(spot, model, stackOf)
  return (
    <FloatingTooltip x={x} y={y}>
      {block !== null && (
        <div className={`${tipCss.head} ${textCss.mono}`}>
          <Swatch color={color} />
          {block === 'rest' ? 'Smaller blocks, summed' : typeof block === 'object' ? block.name : lineOf(tile, block)}
        </div>
      )}
      <TipLines lines={linesOf(spot, model.layer)} />
      {frames.length > 0 && (
        <ol className={css.stack} data-testid="tip-stack">
          {frames.slice(0, FRAMES).map((frame, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: a recursive stack repeats its frames
            <li key={i}>{shortFrame(frame.text, 46)}</li>
          ))}
          {frames.length > FRAMES && <li>and {count(frames.length - FRAMES)} above</li>}
        </ol>
      )}
      {typeof block === 'number' && <div className={tipCss.foot}>click: select · Shift-click: memory at this time</div>}
    </FloatingTooltip>
  )
}
