// The two bars in the head of a section: what computes or copies above, what communicates below.
export const BUSY = { top: 4, height: 10, gap: 2 }
/** Pixels from the top of a section to its bar of communication. */
export const COMMUNICATION = BUSY.top + BUSY.height + BUSY.gap

/** Rows of a thread of the host, from the outermost, that are looked at for work. */
export const HOST_ROWS = 24
/** What stands around work on the host and is none: ranges such as steps, Python, and the profiler. */
const AROUND = new Set(['annotation', 'window', 'overhead', 'python', 'module', 'device_annotation'])

/** Which categories of a thread's events count as work; all where the trace tells of no other work on the host. */
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
