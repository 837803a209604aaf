// The visible history window and its tiles.
import { useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { getView, type Query } from '../../../api/client'
import type { Bands, Problem } from '../../../api/payloads'
import type { BlocksModel } from '../../../canvas/blocks/engine'
import type { HistoryAxis, HistoryLayer } from '../../../canvas/blocks/scene'
import { BlockTileStore } from '../../../canvas/blocks/tileStore'
import type { Range } from '../../../canvas/viewport'
import type { TileKey } from '../../../lib/tiles'
import { payloadByName } from '../../../parts/payloadByName'
import { rangeOf, type TimelineWindow, useMovableWindow } from '../../../parts/useWindow'
import { useActivity } from '../../../state/activity'
import { problemOf, useView } from '../../../state/data'
import { setRoute, useRoute } from '../../../state/urlState'

/** Keys of the URL that hold the window. */
export const KEYS: Record<HistoryAxis, readonly [string, string]> = {
  events: ['from', 'to'],
  time: ['from_ns', 'to_ns'],
}
export const NO_WINDOW = { from: '', to: '', from_ns: '', to_ns: '' }

/** State e + 1 is after event e: the URL holds the first and last visible event. */
const OFF: Record<HistoryAxis, readonly [number, number]> = { events: [1, 2], time: [0, 0] }

export function useHistoryWindow(axis: HistoryAxis, extent: number): TimelineWindow {
  const route = useRoute()
  const [low, high] = KEYS[axis]
  const [from, to] = [route[low], route[high]]
  const view = useMemo(() => {
    const [first, last] = OFF[axis]
    const shifted = (text: string | undefined, by: number) => (text === undefined ? text : String(Number(text) + by))
    const range = rangeOf(shifted(from, first), shifted(to, last))
    const start = Math.max(0, range?.start ?? 0)
    const end = Math.min(extent, range?.end ?? extent)
    return end > start ? { start, end } : { start: 0, end: extent }
  }, [axis, extent, from, to])
  const put = useCallback(
    (next: Range, push: boolean) => {
      const [first, last] = OFF[axis]
      const whole = next.start <= 0 && next.end >= extent
      const values = whole ? ['', ''] : [String(next.start - first), String(next.end - last)]
      const [lowKey, highKey] = KEYS[axis]
      setRoute({ ...NO_WINDOW, [lowKey]: values[0], [highKey]: values[1] }, push)
    },
    [axis, extent],
  )
  return useMovableWindow(view, put)
}

interface BlocksData {
  model: BlocksModel | null
  problem: Problem | null
  busy: boolean
}

const bandsOf = (answer: Bands | null): Bands => {
  if (!answer) throw new Error('The server sent no memory blocks.')
  return answer
}

/** Tiles of a device. `onTiles` is called when some have come. */
export function useBlocks(query: Query, axis: HistoryAxis, layer: HistoryLayer, onTiles: () => void): BlocksData {
  const whole = useMemo(() => ({ ...query, tile: 0 }), [query])
  const resource = useView('active_memory', whole)
  const head = resource.busy || !resource.data ? null : payloadByName(resource.data, 'bands', 'bands')
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem | null>(null)
  const notify = useRef(onTiles)
  notify.current = onTiles
  const model = useMemo(() => {
    if (!head) return null
    const fetch = async (level: number, tiles: readonly TileKey[], signal: AbortSignal) => {
      setBusy(true)
      const answer = await getView('active_memory', { ...query, level, tile: tiles[0].number }, signal)
      if (answer.state === 'ready') return [bandsOf(payloadByName(answer.data, 'bands', 'bands'))]
      throw new Error('The snapshot is loading again.')
    }
    const store: BlockTileStore = new BlockTileStore(fetch, {
      onChange: () => {
        setBusy(store.busy)
        notify.current()
      },
      onProblem: (error) => setProblem(error === null ? null : problemOf(error)),
    })
    store.keep({ level: head.level, group: 0, number: head.tile }, head)
    return { axis, layer, head, store }
  }, [head, query, axis, layer])
  useEffect(() => () => model?.store.destroy(), [model])
  useActivity(busy)
  return { model, problem: resource.problem ?? problem, busy: busy || resource.busy }
}
