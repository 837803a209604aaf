// Time range and utilization of several ranks.
import { fromAxis, type Placement, toAxis } from './rankAxis'

interface Part {
  placement: Placement
  start: number
  end: number
  busy: readonly number[]
}

const SLICES = 400

export function rankOverview(parts: readonly Part[]): { start: number; end: number; busy: number[] } {
  const start = Math.floor(Math.min(...parts.map((part) => toAxis(part.placement, part.start))))
  const end = Math.ceil(Math.max(...parts.map((part) => toAxis(part.placement, part.end))))
  const width = (end - start) / SLICES
  const busy = Array.from({ length: SLICES }, (_, i) => {
    const values = parts.flatMap((part) => {
      const own = fromAxis(part.placement, start + (i + 0.5) * width)
      const at = Math.floor(((own - part.start) / (part.end - part.start)) * part.busy.length)
      return part.busy[at] ?? []
    })
    return values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : 0
  })
  return { start, end, busy }
}
