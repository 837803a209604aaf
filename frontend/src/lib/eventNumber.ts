// Event numbers of a memory snapshot, as typed.

/** The event number as the URL has it: '' for none, null if invalid. */
export function parseEventNumber(text: string): string | null {
  const bare = text.replace(/[\s,_']/g, '')
  if (bare === '') return ''
  if (!/^-?\d{1,12}$/.test(bare)) return null
  const number = Number(bare)
  return number < -1 ? null : String(number)
}
