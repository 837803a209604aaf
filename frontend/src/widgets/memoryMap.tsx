// A map of device memory on a canvas.
import { useEffect, useMemo, useRef, useState } from 'react'
import type { MemoryMap } from '../api/payloads'
import {
  type ColorOf,
  drawMap,
  hitAt,
  layoutOf,
  type MapChoice,
  neighbourOf,
  placeOf,
  rowOf,
  type Spot,
} from '../canvas/memoryMap'
import { columnScale, counted, format, formatNumber } from '../lib/format'
import { useTheme } from './basics'
import { TipLines } from './floatingTooltip'
import { Picture } from './picture'
import { useWidth } from './useSize'
import css from './memoryMap.module.css'
import textCss from './text.module.css'
import tipCss from './tip.module.css'

const hex = (address: string, offset: number) => `0x${(BigInt(address) + BigInt(offset)).toString(16)}`

export function MemoryMapPicture(props: {
  map: MemoryMap
  choice: MapChoice
  colorOf: ColorOf
  height: number
  /** Number of a block; -1 = none. */
  selected: number
  onSelect: (piece: number) => void
}) {
  const { map, choice, colorOf, height, selected, onSelect } = props
  const theme = useTheme()
  const frame = useRef<HTMLDivElement>(null)
  const width = useWidth(frame)
  const [top, setTop] = useState(0)
  const layout = useMemo(() => layoutOf(map, choice, width), [map, choice, width])
  const visible = Math.max(40, Math.min(height, layout.height + 4))
  const titleOf = (group: number) => {
    const { stream, pool, reserved_bytes, allocated_bytes, pending_bytes, free_bytes } = map.groups[group]
    const parts: [number, string][] = [
      [free_bytes, 'free'],
      [allocated_bytes, 'allocated'],
      [pending_bytes, 'pending'],
    ]
    // One unit, so that they can be added.
    const scale = columnScale('bytes', [reserved_bytes, ...parts.map(([size]) => size)])
    const told = parts.filter(([size]) => size > 0).map(([size, what]) => `${formatNumber(size, scale)} ${what}`)
    const name = `${pool === 'default' ? 'Default pool' : `Pool ${pool}`}, stream ${stream}`
    return `${name}: ${format(reserved_bytes, 'bytes', scale)} (${told.join(', ')})`
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another block is to be brought into sight
  useEffect(() => {
    const place = selected < 0 ? null : placeOf(layout, rowOf(map, selected), map.piece_offset[selected])
    const box = frame.current
    if (!place || !box) return
    const line = layout.lines[place.line]
    if (line.y < box.scrollTop) box.scrollTop = line.y
    else if (line.y + line.height > box.scrollTop + visible) box.scrollTop = line.y + line.height - visible
  }, [selected])
  const onKey = (key: string) => {
    if (key === 'Escape') onSelect(-1)
    else if (key.startsWith('Arrow')) onSelect(neighbourOf(map, layout, selected, key))
    else return false
    return true
  }
  return (
    <div
      ref={frame}
      className={css.frame}
      style={{ height: visible }}
      data-testid="memory-map"
      data-lines={layout.lines.length}
      data-line-bytes={layout.perLine}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div style={{ height: layout.height }}>
        <Picture<Spot>
          className={css.canvas}
          height={visible}
          subject={map}
          label={`Map of ${counted(layout.rows, 'segment')}, ${format(layout.perLine, 'bytes')} per line. Arrow keys select a block, Escape deselects. The tables have the same numbers.`}
          draw={(context, width, hover) =>
            drawMap(context, { map, layout, colorOf, titleOf, theme, width, height: visible, top, hover, selected })
          }
          hit={({ x, y }) => hitAt(map, layout, x, y + top)}
          onClick={(spot) => onSelect(spot?.piece ?? -1)}
          onKey={onKey}
          spoken={
            selected < 0
              ? null
              : `${format(map.piece_bytes[selected], 'bytes')} ${map.lines[map.piece_line[selected]] ?? ''}`
          }
          tip={(spot) => <Tip map={map} spot={spot} />}
        />
      </div>
    </div>
  )
}

function Tip({ map, spot }: { map: MemoryMap; spot: Spot }) {
  const { row, piece } = spot
  const lines: [string, string][] = [
    ['Size', format(spot.bytes, 'bytes')],
    ['Address', hex(map.row_address[row], spot.offset)],
    ['Segment', `${format(map.row_bytes[row], 'bytes')}, used ${format(map.row_used_bytes[row], 'bytes')}`],
  ]
  if (piece >= 0) {
    const begin = map.piece_begin[piece]
    const age = begin < 0 ? 'before the recorded history' : counted(map.event - begin, 'event')
    if (map.piece_blocks[piece] > 1) lines.push(['Blocks', map.piece_blocks[piece].toLocaleString('en-US')])
    lines.push(['Age', age])
    if (map.piece_unused[piece] > 0) lines.push(['Lost to rounding', format(map.piece_unused[piece], 'bytes')])
  }
  const state = piece < 0 ? 'Free' : map.piece_is_pending[piece] ? 'Pending free' : 'Allocated'
  const line = piece < 0 ? '' : (map.lines[map.piece_line[piece]] ?? '(no stack recorded)')
  return (
    <>
      <div className={tipCss.head}>
        {state}
        {piece >= 0 && map.piece_in_way[piece] ? ', blocking the request' : ''}
      </div>
      {line && <div className={textCss.mono}>{line}</div>}
      <TipLines lines={lines} />
    </>
  )
}
