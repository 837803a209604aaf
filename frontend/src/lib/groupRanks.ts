// Ranks of a process group as a table spells them: a list, or a long one in a few characters.

/** More ranks no job has; a text may say any number. */
const MOST = 1 << 20

/** The ranks of `0, 1, 2`, of `[0, 1]`, of `0-7` and of `0-56 by 8`; null where a list is cut, or none. */
export function ranksOf(text: string): ReadonlySet<number> | null {
  if (/…|\.\.\./.test(text)) return null
  const [, first, last, by] = /^(\d{1,9})-(\d{1,9})(?: by (\d{1,9}))?$/.exec(text) ?? []
  if (first === undefined) {
    const listed = text.match(/\d{1,9}/g)
    return listed ? new Set(listed.map(Number)) : null
  }
  const step = Math.max(Number(by ?? 1), 1)
  const count = Math.floor((Number(last) - Number(first)) / step) + 1
  if (count < 1 || count > MOST) return null
  return new Set(Array.from({ length: count }, (_, at) => Number(first) + at * step))
}
