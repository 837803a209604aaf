// Events of a memory snapshot as a person writes them, and the words of a comparison of two moments.

/** The number that a text names, as the URL has it: '' for none, null for what is no number of an event. */
export function parseEventNumber(text: string): string | null {
  const bare = text.replace(/[\s,_']/g, '')
  if (bare === '') return ''
  if (!/^-?\d{1,12}$/.test(bare)) return null
  const number = Number(bare)
  return number < -1 ? null : String(number)
}
