// Typed requests to the plugin's routes.
import { deviceWord, tableInWords, viewInWords } from '../lib/deviceWords'
import { PER_STEP_VIEWS, tablePerStep, viewPerStep } from '../lib/perStep'
import type { Catalog, Problem, Profile, ProfileName, Table, View } from './payloads'

export type Query = Record<string, string | number | readonly string[] | null | undefined>

/** In a query: the number of steps that sums are divided by. The server does not get it. */
export const PER_STEP = 'per_step'

/** An answer, or the profile that is still being read (202). */
export type Answer<T> = { state: 'ready'; data: T } | { state: 'loading'; profile: Profile }

export class ApiError extends Error {
  readonly problem: Problem
  /** 0 = the server did not answer at all. */
  readonly status: number

  constructor(status: number, problem: Problem) {
    super(problem.what)
    this.status = status
    this.problem = problem
  }
}

function urlOf(path: string, query: Query = {}): string {
  const params = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '' || key === PER_STEP) continue
    if (typeof value === 'object') for (const item of value) params.append(key, item)
    else params.set(key, String(value))
  }
  const text = params.toString()
  return new URL(text ? `${path}?${text}` : path, document.baseURI).href
}

function isProblem(value: unknown): value is Problem {
  return typeof value === 'object' && value !== null && 'what' in value && typeof value.what === 'string'
}

async function problemOf(response: Response, path: string): Promise<Problem> {
  try {
    const body: unknown = await response.json()
    if (typeof body === 'object' && body !== null && 'error' in body && isProblem(body.error)) return body.error
  } catch {
    // Not our error format: a proxy or TensorBoard answered.
  }
  return {
    what: `The server answered ${response.status} ${response.statusText}.`,
    where: path,
    do: 'Check the TensorBoard log, then reload the page.',
  }
}

async function request(path: string, query: Query, signal?: AbortSignal): Promise<Response> {
  let response: Response
  try {
    response = await fetch(urlOf(path, query), { signal, headers: { accept: 'application/json' } })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, {
      what: 'The server does not respond.',
      where: new URL('.', document.baseURI).href,
      do: 'Check that TensorBoard is running and reachable. The page retries automatically.',
    })
  }
  if (!response.ok) throw new ApiError(response.status, await problemOf(response, path))
  return response
}

async function get<T>(path: string, query: Query, signal?: AbortSignal): Promise<Answer<T>> {
  const response = await request(path, query, signal)
  if (response.status === 202) return { state: 'loading', profile: (await response.json()) as Profile }
  return { state: 'ready', data: (await response.json()) as T }
}

/** An answer that is not JSON. */
export async function getBytes(path: string, query: Query, signal?: AbortSignal): Promise<Answer<ArrayBuffer>> {
  const response = await request(path, query, signal)
  if (response.status === 202) return { state: 'loading', profile: (await response.json()) as Profile }
  return { state: 'ready', data: await response.arrayBuffer() }
}

let known: { tag: string; catalog: Catalog } | null = null

/** The same object as last time while nothing changed: a thousand workers need not be decoded and drawn every 5 s. */
export async function getCatalog(signal?: AbortSignal): Promise<Catalog> {
  const response = await request('runs', {}, signal)
  const tag = response.headers.get('etag')
  if (known !== null && known.tag === tag) {
    // Read to the end, so that the connection is free and the browser caches the answer.
    await response.arrayBuffer()
    return known.catalog
  }
  const catalog = (await response.json()) as Catalog
  known = tag === null ? null : { tag, catalog }
  return catalog
}

/** The catalog of the last answer. */
export const lastCatalog = (): Catalog | null => known?.catalog ?? null

/** Sends a file to the server of `torch-trace view`; `fetch` would not report the progress. */
export function uploadFile(
  file: File,
  onProgress: (fraction: number) => void,
  signal: AbortSignal,
): Promise<ProfileName> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    const interrupted = () =>
      reject(new ApiError(0, { what: 'The upload was interrupted.', where: file.name, do: 'Drop the file again.' }))
    request.open('PUT', urlOf('files', { name: file.name }))
    request.responseType = 'json'
    request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 1)
    request.onload = async () => {
      if (request.status === 200) resolve(request.response as ProfileName)
      else
        reject(
          new ApiError(
            request.status,
            await problemOf(new Response(JSON.stringify(request.response), { status: request.status }), 'files'),
          ),
        )
    }
    request.onerror = interrupted
    request.onabort = interrupted
    signal.addEventListener('abort', () => request.abort())
    request.send(file)
  })
}

export async function getProfile(query: Query, signal?: AbortSignal): Promise<Profile> {
  const answer = await get<Profile>('profile', query, signal)
  return answer.state === 'ready' ? answer.data : answer.profile
}

/** A page that opens again shows its last answer until the server has confirmed or replaced it. */
const kept = new Map<string, { tag: string; data: View | Table }>()
const MOST_KEPT = 40

const keyOf = (path: string, query: Query) => [deviceWord(), query[PER_STEP], urlOf(path, query)].join(' ')

/**
 * Answers in the words of the profile. Those of views that follow the switch are divided by the steps of the query. An
 * answer that did not change is the same object as last time.
 */
async function presented<T extends View | Table>(
  view: string,
  path: string,
  query: Query,
  signal: AbortSignal | undefined,
  inWords: (data: T) => T,
  divide: (data: T, steps: number) => T,
): Promise<Answer<T>> {
  const key = keyOf(path, query)
  const last = kept.get(key)
  kept.delete(key)
  const response = await request(path, query, signal)
  if (response.status === 202) return { state: 'loading', profile: (await response.json()) as Profile }
  const tag = response.headers.get('etag')
  let data = last?.data as T
  if (last && last.tag === tag) await response.arrayBuffer()
  else {
    const answer = (await response.json()) as T
    // Columns of a query keep their names.
    data = view === 'sql' ? answer : inWords(answer)
    const steps = query[PER_STEP]
    if (typeof steps === 'number' && steps > 1 && PER_STEP_VIEWS.has(view)) data = divide(data, steps)
  }
  if (tag) kept.set(key, { tag, data })
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break
    kept.delete(oldest)
  }
  return { state: 'ready', data }
}

const viewPath = (id: string) => `view/${encodeURIComponent(id)}`
const tablePath = (view: string, table: string) => `table/${encodeURIComponent(view)}/${encodeURIComponent(table)}`

export const getView = (id: string, query: Query, signal?: AbortSignal) =>
  presented(id, viewPath(id), query, signal, viewInWords, viewPerStep)

export const getTable = (view: string, table: string, query: Query, signal?: AbortSignal) =>
  presented(view, tablePath(view, table), query, signal, tableInWords, tablePerStep)

/** The last answer, which may have changed since. */
export const lastView = (id: string, query: Query) =>
  (kept.get(keyOf(viewPath(id), query))?.data ?? null) as View | null
export const lastTable = (view: string, table: string, query: Query) =>
  (kept.get(keyOf(tablePath(view, table), query))?.data ?? null) as Table | null

/** Lets the browser ask now what the page will ask once it is drawn. */
export function askEarly(path: string, query: Query): void {
  const link = Object.assign(document.createElement('link'), { rel: 'preload', as: 'fetch', href: urlOf(path, query) })
  link.crossOrigin = 'anonymous'
  document.head.append(link)
}

export const tableCsvUrl = (view: string, table: string, query: Query) =>
  urlOf(tablePath(view, table), { ...query, format: 'csv' })

export const originalUrl = (query: Query) => urlOf('download/original', query)
export const windowUrl = (query: Query) => urlOf('download/window', query)
/** More than this a page should not hold at once; packed, it is about 15 times as much text. */
const MOST_BYTES = 2 ** 30

const tooLarge = (path: string, size: string) =>
  new ApiError(413, {
    what: `The trace is too large to send to Perfetto in the browser${size}.`,
    where: path,
    do: 'Select a smaller window, or download the file and open it with the Perfetto command line.',
  })

/** The events of a window as a .gz file, to hand on. */
export async function getWindow(query: Query, signal: AbortSignal): Promise<ArrayBuffer> {
  const path = 'download/window'
  const response = await request(path, { ...query, packed: 1 }, signal)
  if (response.status === 202)
    throw new ApiError(202, {
      what: 'The profile is loading again.',
      where: path,
      do: 'Wait until it has loaded, then click again.',
    })
  const bytes = Number(response.headers.get('content-length'))
  if (bytes > MOST_BYTES) throw tooLarge(path, ` (${Math.round(bytes / 2 ** 20)} MiB compressed)`)
  try {
    return await response.arrayBuffer()
  } catch (error) {
    if (error instanceof RangeError) throw tooLarge(path, '')
    if (signal.aborted) throw error
    throw new ApiError(0, {
      what: 'The download was interrupted.',
      where: path,
      do: 'Click again. If it fails again, check the TensorBoard log.',
    })
  }
}

/** The pages as one HTML file. */
export const getReport = (query: Query, signal: AbortSignal) => getBytes('download/report', query, signal)

export const stacksUrl = (query: Query) => urlOf('download/stacks', query)
