// Notice templates: `{key}` is replaced by the figure of that key.

type Piece = { kind: 'text'; text: string } | { kind: 'figure'; key: string }

export function templatePieces(template: string): Piece[] {
  const out: Piece[] = []
  let last = 0
  for (const match of template.matchAll(/\{([a-z_0-9.]+)\}/gi)) {
    if (match.index > last) out.push({ kind: 'text', text: template.slice(last, match.index) })
    out.push({ kind: 'figure', key: match[1] })
    last = match.index + match[0].length
  }
  if (last < template.length) out.push({ kind: 'text', text: template.slice(last) })
  return out
}

/** The first sentence of a template. */
export const firstSentence = (template: string) => template.replace(/(?<=\.) (?=[A-Z]).*/s, '')
