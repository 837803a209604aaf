// TensorBoard's URL hash: our keys are `p.torch_trace.<key>`, others stay.

const PLUGIN = 'torch_trace'
const PREFIX = `p.${PLUGIN}.`

export type Values = Record<string, string>

const tokens = (hash: string) =>
  hash
    .replace(/^#/, '')
    .split('&')
    .filter((token) => token !== '')

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', '%20'))
  } catch {
    return text
  }
}

/** Escapes only what a hash requires. */
const encode = (text: string) =>
  encodeURIComponent(text).replace(/%(3A|2F|2C|40|20|3B)/g, (escaped) =>
    escaped === '%20' ? '+' : decodeURIComponent(escaped),
  )

export function readHash(hash: string): Values {
  const out: Values = {}
  for (const token of tokens(hash)) {
    const at = token.indexOf('=')
    const key = decode(at < 0 ? token : token.slice(0, at))
    if (at > 0 && key.startsWith(PREFIX)) out[key.slice(PREFIX.length)] = decode(token.slice(at + 1))
  }
  return out
}

/** The hash with our keys replaced. The first token names the active tab; it is added when missing. */
export function mergeHash(hash: string, values: Values): string {
  const foreign = tokens(hash).filter((token) => !decode(token).startsWith(PREFIX))
  const named = foreign.length > 0 && !foreign[0].includes('=')
  const own = Object.entries(values)
    .filter(([, value]) => value !== '')
    .map(([key, value]) => `${PREFIX}${key}=${encode(value)}`)
  return `#${[...(named ? [foreign[0]] : [PLUGIN]), ...(named ? foreign.slice(1) : foreign), ...own].join('&')}`
}

/** Whether another tab is open: then the hash is not ours to write. */
export function isOtherTab(hash: string): boolean {
  const first = tokens(hash)[0]
  return first !== undefined && !first.includes('=') && first !== PLUGIN
}

const LIST = '\u001f'
export const joinList = (items: readonly string[]) => items.join(LIST)
export const splitList = (text: string | undefined) => (text ? text.split(LIST).filter((item) => item !== '') : [])
