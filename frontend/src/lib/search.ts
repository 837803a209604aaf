// The search box's syntax: plain text or /regex/.
import { shortKernel } from './names'

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
  parseSearch(input).kind === 'regex' || !/^-[A-Za-z_/]|[\s"<>=]|(^|[^:]):(?!:)/.test(input.trim())

/** A test for names as recorded and as shown; an empty or bad search matches nothing. */
export function matcher(input: string): ((name: string) => boolean) | null {
  if (input === '') return null
  const search = parseSearch(input)
  if (search.kind === 'bad') return null
  if (search.kind === 'regex') {
    const regex = new RegExp(search.source)
    return (name) => regex.test(name) || regex.test(shortKernel(name))
  }
  const wanted = search.text.toLowerCase()
  return (name) => name.toLowerCase().includes(wanted) || shortKernel(name).toLowerCase().includes(wanted)
}

/** What to say of a search without hits. */
export function emptyHint(input: string): string {
  const says = 'No event matches.'
  if (/\w\|\w/.test(input) && !input.includes('/')) return `${says} For one or the other, write /a|b/.`
  if (/(^|\s)(NOT|!)\s*\w/.test(input)) return `${says} To exclude a text, write -text.`
  if (/(^|\s)OR\s/.test(input)) return `${says} All terms must match. For one or the other, write /a|b/.`
  return input === '' ? says : `${says} Track names are searched in the menu Tracks.`
}
