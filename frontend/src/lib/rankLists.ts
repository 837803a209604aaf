// Lists of ranks as text.

/** A list of ranks as it was recorded, in few characters: `0-7`, `0-56 by 8`; one that is no such row stays as it is. */
export function ranksShort(text: string): string {
  const list = /^\s*\[([\d,\s]+)\]\s*$/.exec(text)
  if (!list) return text
  const ranks = list[1].split(',').map(Number)
  const by = ranks[1] - ranks[0]
  const isRow = ranks.length > 2 && by > 0 && ranks.every((rank, at) => at === 0 || rank - ranks[at - 1] === by)
  if (isRow) return `${ranks[0]}-${ranks[ranks.length - 1]}${by === 1 ? '' : ` by ${by}`}`
  return ranks.join(', ')
}

/** More ranks no job has; a text may say any number. */
const MOST = 1 << 20

/** Ranks of `0, 1, 2`, `[0, 1]`, `0-7` or `0-56 by 8`; null if truncated or invalid. */
export function parseRanks(text: string): ReadonlySet<number> | null {
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
