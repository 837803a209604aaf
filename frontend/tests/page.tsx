// The whole page in a document without a layout, over recorded answers of the server: for tests of what a person chooses,
// reads and types. Sizes, colours and pictures are tested in a real browser (tests/browser).
import userEvent from '@testing-library/user-event'
import { createRoot, type Root } from 'react-dom/client'
import { expect } from 'vitest'
import type { Problem } from '../src/api/payloads'
import { App } from '../src/app/app'
import { mergeHash, readHash, type Values } from '../src/state/tensorboardHash'
import { emptyTiles } from './tiles'

type Patch = (path: string, body: never) => unknown

/** `make payload-fixtures` records what the tests ask; without it they are answered from the files. */
const SERVER = import.meta.env.VITE_RECORD as string | undefined
const RECORDED = 'tests/recorded'
const WIDTH = 1400
const HEIGHT = 240
const PATIENCE_MS = 60_000

/** What the server says instead of an answer. */
export class Refusal {
  readonly status: number
  readonly problem: Problem

  constructor(status: number, problem: Problem) {
    this.status = status
    this.problem = problem
  }
}

/** Paths that were asked for since the page was opened, without those of the catalog. */
export const asked: string[] = []
let patches: Patch[] = []
let logdir = 'small'

/** Changes what the server says, until the test ends: `undefined` leaves an answer as it is, an error is a status. */
export function patch(change: Patch): void {
  patches.push(change)
}

declare const process: {
  getBuiltinModule(name: 'fs'): { readFileSync(path: string): Uint8Array }
  getBuiltinModule(name: 'zlib'): { gunzipSync(bytes: Uint8Array): Uint8Array<ArrayBuffer> }
}
const { readFileSync } = process.getBuiltinModule('fs')
const gunzip = process.getBuiltinModule('zlib').gunzipSync

const kept = new Map<string, Record<string, string>>()

/** The texts of all answers that are recorded of a log directory. */
function answersOf(name: string): Record<string, string> {
  const known = kept.get(name)
  if (known) return known
  const text = new TextDecoder().decode(gunzip(readFileSync(`${RECORDED}/${name}.json.gz`)))
  const answers: Record<string, string> = {}
  for (const line of text.split('\n').slice(1, -2)) {
    const end = line.indexOf('": [')
    answers[JSON.parse(line.slice(0, end + 1))] = line.slice(end + 3).replace(/,$/, '')
  }
  kept.set(name, answers)
  return answers
}

async function answerOf(path: string): Promise<[number, unknown]> {
  if (SERVER) {
    const response = await original(`${SERVER}/${logdir}/data/plugin/torch_trace/${path}`)
    return [response.status, await response.json()]
  }
  const found = answersOf(logdir)[path]
  if (!found) throw new Error(`Not recorded of ${logdir}, run make payload-fixtures: ${path}`)
  return JSON.parse(found)
}

const original = globalThis.fetch

/** Answers like the server. */
async function answer(input: string | URL | Request): Promise<Response> {
  const url = new URL(String(input))
  const query = [...url.searchParams].map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join('&')
  const path = url.pathname.slice(1) + (query && `?${query}`)
  if (path !== 'runs') asked.push(path)
  const tiles = url.pathname === '/tiles' && url.searchParams.get('tiles')
  if (tiles) return new Response(emptyTiles(tiles.split(',').length))
  // Nobody has read the other workers before.
  if (url.searchParams.has('known')) return new Response('{"state": "found"}', { status: 202 })
  let found: [number, unknown] | null = null
  try {
    found = await answerOf(path)
  } catch (error) {
    missing.push(String(error))
    return new Promise(() => undefined)
  }
  let [status, body] = found
  for (const change of patches) {
    const changed = change(path, structuredClone(body) as never)
    if (changed instanceof Refusal) [status, body] = [changed.status, { error: changed.problem }]
    else if (changed !== undefined) [status, body] = [200, changed]
  }
  return new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } })
}

const missing: string[] = []
globalThis.fetch = answer as typeof fetch

/** Everything is as large as the page, but for the rows of tables: they are in sight, and pictures have room. */
for (const [key, size] of Object.entries({ Width: WIDTH, Height: HEIGHT }))
  for (const kind of ['client', 'offset'])
    Object.defineProperty(HTMLElement.prototype, kind + key, {
      configurable: true,
      get(this: HTMLElement) {
        return key === 'Height' && this.dataset.index !== undefined ? 32 : size
      },
    })
HTMLElement.prototype.getBoundingClientRect = () => new DOMRect(0, 0, WIDTH, HEIGHT)
HTMLElement.prototype.scrollTo = () => undefined
Element.prototype.scrollIntoView = () => undefined
/** A canvas takes every stroke and shows nothing. */
const strokes: unknown = new Proxy(
  { measureText: (text: string) => ({ width: 6 * text.length }), canvas: null },
  { get: (own, key) => (key in own ? own[key as keyof typeof own] : () => strokes), set: () => true },
)
HTMLCanvasElement.prototype.getContext = (() => strokes) as never

let root: Root | null = null

function close(): void {
  root?.unmount()
  root = null
  document.body.replaceChildren()
}

/** Ends what a test did: a missing recording fails it, though the page only says that nobody answers. */
export function reset(): void {
  close()
  logdir = 'small'
  patches = []
  localStorage.clear()
  sessionStorage.clear()
  delete document.documentElement.dataset.state
  expect(missing.splice(0)).toEqual([])
}

export const user = userEvent.setup({ pointerEventsCheck: 0, delay: null })

/** What the page keeps in its address. */
export const state = (): Values => readHash(location.hash)

const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))

/** Waits until something is there. */
export async function soon<T>(look: () => T): Promise<T> {
  const end = Date.now() + PATIENCE_MS
  for (;;) {
    if (missing.length > 0) throw new Error(missing.join('\n'))
    try {
      return look()
    } catch (error) {
      if (Date.now() > end) throw error
    }
    await pause(10)
  }
}

/** Waits until nothing is asked or drawn any more. */
export async function settle(): Promise<void> {
  await pause(0)
  await soon(() => {
    if (document.documentElement.dataset.state !== 'idle') throw new Error('The page is busy.')
  })
}

/** Sums as the server answers them; Compare divides them itself. */
const withTotals = (values: Values): Values => (values.view?.includes('diff') ? values : { per: 'total', ...values })

/** Opens the page at a state of its address; `from` names the recordings. */
export async function open(values: Values, from = 'small'): Promise<HTMLElement> {
  close()
  logdir = from
  asked.length = 0
  history.replaceState(null, '', mergeHash('', withTotals(values)))
  window.dispatchEvent(new PopStateEvent('popstate'))
  document.documentElement.dataset.state = 'busy'
  const place = document.body.appendChild(document.createElement('div'))
  root = createRoot(place)
  root.render(<App />)
  await settle()
  return main()
}

/** Goes to another state of the open page, as a link does. */
export async function follow(values: Values): Promise<HTMLElement> {
  history.pushState(null, '', mergeHash('', withTotals(values)))
  window.dispatchEvent(new PopStateEvent('popstate'))
  await settle()
  return main()
}

export async function back(): Promise<void> {
  history.back()
  await settle()
}

export const main = (): HTMLElement => one('#main')
export const all = (selector: string, within: ParentNode = document) => [
  ...within.querySelectorAll<HTMLElement>(selector),
]

/** The first element of a selector. */
export function one(selector: string, within: ParentNode = document): HTMLElement {
  const found = within.querySelector<HTMLElement>(selector)
  if (!found) throw new Error(`There is no ${selector} in: ${(within.textContent ?? '').slice(0, 600)}`)
  return found
}

export const byTest = (id: string, within: ParentNode = document) => one(`[data-testid=${id}]`, within)

/** The text of an element, without the styles that stand in the document. */
export function textOf(node: Element | null): string {
  if (!node) return ''
  const copy = node.cloneNode(true) as Element
  for (const style of copy.querySelectorAll('style')) style.remove()
  return (copy.textContent ?? '').replaceAll(/\s+/g, ' ').trim()
}

const CONTROLS = {
  button: 'button, [role=button]',
  option: '[role=option]',
  item: '[role=menuitem], [role=menuitemcheckbox]',
  tree: '[role=treeitem]',
  link: 'a[href]',
  box: 'input[type=checkbox]',
  radio: 'input[type=radio]',
  tab: '[role=tab]',
} as const

/** How a control is called: by its label, else by what it shows. */
function nameOf(node: HTMLElement): string {
  const labels = [...((node as HTMLInputElement).labels ?? [])]
  const by = node.getAttribute('aria-labelledby')
  return (
    node.getAttribute('aria-label') ||
    (by && textOf(document.getElementById(by))) ||
    labels.map(textOf).join(' ') ||
    textOf(node) ||
    node.title
  )
}

const isCalled = (name: string | RegExp) => (node: HTMLElement) =>
  typeof name === 'string' ? nameOf(node) === name : name.test(nameOf(node))

/** All controls of a kind that are called so. */
export const named = (kind: keyof typeof CONTROLS, name: string | RegExp, within: ParentNode = document) =>
  all(CONTROLS[kind], within).filter(isCalled(name))

/** The first control that is called so. */
export function control(kind: keyof typeof CONTROLS, name: string | RegExp, within: ParentNode = document) {
  const found = named(kind, name, within)[0]
  const names = () => all(CONTROLS[kind], within).map(nameOf).join(' | ').slice(0, 1500)
  if (!found) throw new Error(`There is no ${kind} called ${name}: ${names()}`)
  return found
}

export const button = (name: string | RegExp, within?: ParentNode) => control('button', name, within)

/** A field or a list to choose from, by its label. */
export function field(name: string | RegExp, within: ParentNode = document): HTMLInputElement & HTMLSelectElement {
  const found = all('input, select, textarea', within).find(
    (node) => isCalled(name)(node) || (node as HTMLInputElement).placeholder?.startsWith(String(name)),
  )
  if (!found)
    throw new Error(`There is no field called ${name}: ${all('input, select', within).map(nameOf).join(' | ')}`)
  return found as HTMLInputElement & HTMLSelectElement
}

/** Clicks and waits, also for the menu that a button opens: menus appear some frames after the click. */
export async function click(node: HTMLElement): Promise<void> {
  await user.click(node)
  await settle()
  if (node.getAttribute('aria-haspopup') && node.getAttribute('aria-expanded') === 'true')
    await soon(() => {
      const menu = document.getElementById(node.getAttribute('aria-controls') ?? '')
      if (node.isConnected && node.getAttribute('aria-expanded') === 'true' && !menu?.childElementCount)
        throw new Error(`The menu of ${nameOf(node)} does not open.`)
    })
}

export async function choose(node: HTMLElement, value: string): Promise<void> {
  await user.selectOptions(node, value)
  await settle()
}

/** Writes into a field instead of what stands there, and may press a key. */
export async function write(node: HTMLElement, text: string, keys = ''): Promise<void> {
  await user.clear(node)
  if (text) await user.type(node, text.replaceAll(/[{[]/g, '$&$&'))
  if (keys) await user.keyboard(keys)
  await settle()
}

/** What the server answers: the page may have asked for it, or not. */
export async function ask<T>(path: string): Promise<T> {
  const [status, body] = await answerOf(path)
  if (status !== 200) throw new Error(`${path}: ${status}`)
  return body as T
}

export type Row = Record<string, string | number | boolean | null>

export const rowsOf = async (path: string): Promise<Row[]> => (await ask<{ rows: Row[] }>(path)).rows

interface Figures {
  figures: { metric: { key: string; title: string }; value: number | string | boolean | null }[]
}

/** The payloads of a view, as their tests need them. */
export const payloadsOf = async <T = Record<string, Figures>>(path: string): Promise<T> =>
  (await ask<{ payloads: T }>(path)).payloads

/** Values by the key of their metric. */
export const valuesOf = ({ figures }: Figures): Row =>
  Object.fromEntries(figures.map(({ metric, value }) => [metric.key, value]))

/** The names of the rows of the table in sight. */
export const rowNames = () => all('[role=rowheader]').map(textOf)

/** How many rows the table has, those out of sight as well. */
export const rowCount = () =>
  Number(one('[role=table]').ariaRowCount ?? one('[role=table]').getAttribute('aria-rowcount')) - 1

/** The texts of a column in sight. */
export function column(title: string): string[] {
  const at = all('[role=columnheader]').findIndex((head) => textOf(head).includes(title))
  return all('[role=row]:has([role=rowheader])').map((row) => textOf(all('[role=rowheader], [role=cell]', row)[at]))
}

/** Opens another view by the list of views. */
export async function navigate(page: string, tab = ''): Promise<void> {
  await click(button(page, one('nav')))
  if (tab) await click(control('tab', tab))
}

/** Chooses from a list of the bar on top, or of another region. */
export async function pick(list: string, choice: string, region = 'Profile'): Promise<void> {
  await user.click(button(new RegExp(`^${list}`), one(`[aria-label=${region}]`)))
  await click(await soon(() => control('option', new RegExp(`^${choice}`))))
}
