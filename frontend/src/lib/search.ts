// The search box's syntax: plain text or /regex/.

type Search = { kind: 'text'; text: string } | { kind: 'regex'; source: string } | { kind: 'bad'; reason: string }

export function parseSearch(input: string): Search {
  const regex = /^\/(.*)\/$/.exec(input)
  if (!regex || input.length < 3) return { kind: 'text', text: input }
  try {
    new RegExp(regex[1])
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^Invalid regular expression:\s*/, '') : 'not valid'
    return { kind: 'bad', reason: `Not a valid regular expression: ${reason}` }
  }
  return { kind: 'regex', source: regex[1] }
}

/** Whether the page itself can tell which names match: one text or /regex/. The server reads all other queries. */
export const isPlainSearch = (input: string) =>
  parseSearch(input).kind === 'regex' || !/[\s"<>=]|(^|[^:]):(?!:)/.test(input.trim())

/** A test for names; an empty or bad search matches nothing. */
export function matcher(input: string): ((name: string) => boolean) | null {
  if (input === '') return null
  const search = parseSearch(input)
  if (search.kind === 'bad') return null
  if (search.kind === 'regex') {
    const regex = new RegExp(search.source)
    return (name) => regex.test(name)
  }
  const wanted = search.text.toLowerCase()
  return (name) => name.toLowerCase().includes(wanted)
}
