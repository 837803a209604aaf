// Some dots of a scatter plot.
import type { Scatter } from '../api/payloads'

/** The dots with these labels. Empty groups stay, so that colors and shapes do not change. */
export function dotsOf(scatter: Scatter, labels: ReadonlySet<string>): Scatter {
  const groups = scatter.groups.map((group) => {
    const pick = <T>(values: readonly T[]) => values.filter((_, i) => labels.has(group.label[i]))
    return { ...group, label: pick(group.label), x: pick(group.x), y: pick(group.y), share: pick(group.share) }
  })
  return { ...scatter, groups }
}
