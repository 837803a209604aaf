// What the colours mean when they stand for names or modules: those in sight that take most time.
import { firstEndingAfter } from './timelineModel'
import { inSight, type Scene } from './timelineScene'

export interface LegendEntry {
  label: string
  color: string
}

/** The names (or modules) of what is drawn now, those with the most time first. One look at what a picture draws as well. */
export function legendOf(scene: Scene, most: number): LegendEntry[] {
  const { model, view, colors } = scene
  if (colors.by === 'kind') return []
  const time = new Map<number, number>()
  for (const { track, rows } of [...inSight(scene, true), ...inSight(scene, false)]) {
    if (track.kind !== 'lane') continue
    const { group } = model.lanes[track.lane]
    for (const { tile, start, end } of model.pieces(scene.level, group, view)) {
      if (!tile) continue
      const number = colors.by === 'name' ? tile.name : tile.module
      const [low, high] = [Math.max(start, view.start), Math.min(end, view.end)]
      for (let row = 0; row < rows; row++) {
        const line = model.lineOf(track.lane, row)
        for (let i = firstEndingAfter(tile, line, low); i < tile.ranges[line + 1] && tile.start[i] < high; i++) {
          const shown = Math.min(tile.start[i] + tile.dur[i], high) - Math.max(tile.start[i], low)
          time.set(number[i], (time.get(number[i]) ?? 0) + shown)
        }
      }
    }
  }
  const texts = colors.by === 'name' ? model.store.names.list : model.store.modules.list
  return [...time]
    .sort((a, b) => b[1] - a[1])
    .slice(0, most)
    .map(([number]) => ({ label: texts[number] || 'no module', color: colors.ofText(texts[number]) }))
}
