// The colour legend: visible names with the most time.
import { firstEndingAfter } from './model'
import { type Scene, visibleTracks } from './scene'

export interface LegendEntry {
  /** Key for hiding. */
  key: string
  label: string
  color: string
}

/** Visible names, modules or classes, most time first. */
export function legendOf(scene: Scene, most: number): LegendEntry[] {
  const { model, view, colors } = scene
  if (colors.by === 'kind') return []
  const time = new Map<number, number>()
  for (const { track, rows } of [...visibleTracks(scene, true), ...visibleTracks(scene, false)]) {
    if (track.kind !== 'lane') continue
    const { group } = model.lanes[track.lane]
    for (const { tile, start, end } of model.pieces(scene.level, group, view)) {
      if (!tile) continue
      const [low, high] = [Math.max(start, view.start), Math.min(end, view.end)]
      for (let row = 0; row < rows; row++) {
        const line = model.lineOf(track.lane, row)
        for (let i = firstEndingAfter(tile, line, low); i < tile.ranges[line + 1] && tile.start[i] < high; i++) {
          if (!colors.isByName(tile.category[i])) continue
          const shown = Math.min(tile.start[i] + tile.dur[i], high) - Math.max(tile.start[i], low)
          const meaning = colors.meaning(tile, i)
          time.set(meaning, (time.get(meaning) ?? 0) + shown)
        }
      }
    }
  }
  // Several names may have one label.
  const byKey = new Map<string, LegendEntry & { isRest: boolean; time: number }>()
  for (const [meaning, ns] of time) {
    const entry = colors.legend(meaning)
    byKey.set(entry.key, { ...entry, time: ns + (byKey.get(entry.key)?.time ?? 0) })
  }
  const entries = [...byKey.values()].sort((a, b) => b.time - a.time)
  return [...entries.filter(({ isRest }) => !isRest), ...entries.filter(({ isRest }) => isRest)].slice(0, most)
}
