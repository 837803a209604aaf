// Room that several things share.

/** What each gets of `room`: all that it needs, or where that is too much a fair share, at least `least`. Sums stay whole. */
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
