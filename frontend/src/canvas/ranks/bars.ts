// The busy and communication bars in a section's head.
export const BUSY = { top: 4, height: 10, gap: 2 }
/** Pixels from the top of a section to its bar of communication. */
export const COMMUNICATION = BUSY.top + BUSY.height + BUSY.gap

/** Rows of a thread of the host, from the outermost, that are looked at for work. */
export const HOST_ROWS = 24
/** Host categories that are no work: steps, Python, the profiler. */
const AROUND = new Set(['annotation', 'window', 'overhead', 'python', 'module', 'device_annotation'])

/** Categories that count as work; all if the trace has no other host work. */
export function workCategories({
  busy,
  categories,
}: {
  busy: readonly number[]
  categories: readonly string[]
}): boolean[] {
  const knows = busy.some((share) => share > 0)
  return categories.map((category) => !knows || !AROUND.has(category))
}
