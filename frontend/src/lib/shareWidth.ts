// Fair distribution of width.

/** Gives each its need, or a fair share of at least `least`. Sums are exact. */
export function shareWidth(needs: readonly number[], room: number, least: number): number[] {
  const given = [...needs]
  let left = room
  const bySize = needs.map((need, i) => ({ need, i })).sort((a, b) => a.need - b.need)
  bySize.forEach(({ need, i }, done) => {
    const share = Math.floor(left / (needs.length - done))
    given[i] = Math.min(need, Math.max(least, share))
    left -= given[i]
  })
  return given
}
