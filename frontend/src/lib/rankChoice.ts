// Which ranks stand on one timeline with the profile that is open: a text of the URL, and the profiles that it means.
import type { Catalog } from '../api/payloads'
import { joinIds, splitIds } from './arrange'
import { type Address, sameAddress } from './profiles'

/** Stands for all workers of the run that have a trace of the span. */
export const EVERY = '*'

/** How the URL names a rank beside `open`: by its worker, of another run or span by all three. */
export function rankKey(open: Address, one: Address): string {
  const parts = one.run === open.run && one.span === open.span ? [one.worker] : [one.run, one.worker, one.span]
  return parts.map(encodeURIComponent).join('/')
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A rank as a person reads it: its worker, of another run also the run. */
export const rankName = (key: string) => {
  const parts = key.split('/').map(decoded)
  return parts.length === 3 ? `${parts[1]} of ${parts[0]}` : key === '' ? '' : decoded(key)
}

function addressOf(open: Address, key: string): Address | null {
  const parts = key.split('/').map(decoded)
  if (parts.length === 1) return { ...open, worker: parts[0] }
  return parts.length === 3 ? { run: parts[0], worker: parts[1], span: parts[2] } : null
}

/** The traces of a run that were recorded with the open one, in the order of the catalog. */
export function besideOf(catalog: Catalog, open: Address): Address[] {
  const workers = catalog.runs.find(({ name }) => name === open.run)?.workers ?? []
  return workers
    .filter(({ spans }) => spans.some(({ id, model }) => id === open.span && model === 'trace'))
    .map(({ name }) => ({ ...open, worker: name }))
}

/** The open profile first, then those that the URL names, each once; what no run has stays, and says so when it is asked for. */
export function chosenRanks(catalog: Catalog, open: Address, text: string | undefined): Address[] {
  const keys = splitIds(text)
  const named = keys.flatMap((key) => (key === EVERY ? besideOf(catalog, open) : (addressOf(open, key) ?? [])))
  const found: Address[] = [open]
  const seen = new Set([JSON.stringify([open.run, open.worker, open.span])])
  for (const one of named) {
    const key = JSON.stringify([one.run, one.worker, one.span])
    if (seen.has(key)) continue
    seen.add(key)
    found.push(one)
  }
  return found
}

/** What the URL says of ranks: all of the run are one sign, the open one is never named. */
export function ranksText(catalog: Catalog, open: Address, ranks: readonly Address[]): string {
  const others = ranks.filter((one) => !sameAddress(one, open))
  const beside = besideOf(catalog, open).filter((one) => !sameAddress(one, open))
  const all = beside.length > 1 && beside.every((one) => others.some((other) => sameAddress(one, other)))
  const rest = all ? others.filter((one) => !beside.some((other) => sameAddress(one, other))) : others
  return joinIds([...(all ? [EVERY] : []), ...rest.map((one) => rankKey(open, one))])
}
