// Ranks as text.

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
