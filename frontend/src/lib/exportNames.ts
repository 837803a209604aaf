// Names of exported files.

export type Place = [string, string][]

/** Name of the open page, in words. */
export function placeOf(base: Readonly<Record<string, unknown>> | null): Place {
  const parts: [string, string][] = [
    ['Run', 'run'],
    ['Worker', 'worker'],
    ['Span', 'span'],
    ['Window', 'window'],
    ['Steps', 'steps'],
    ['Phase', 'phase'],
  ]
  const sums: Place = base?.per_step ? [['Sums', 'per step']] : []
  const named = parts
    .map(([name, key]): [string, string] => [name, String(base?.[key] ?? '')])
    .filter(([, value]) => value)
  return [...named, ...sums]
}

/** A file name that every system accepts. */
export const fileName = (parts: readonly string[]) =>
  parts
    .map((part) => part.replace(/[^\p{L}\p{N}._-]+/gu, '_').replace(/^_+|_+$/g, ''))
    .filter(Boolean)
    .join('-')
    .slice(0, 180)
