import { afterEach, expect, test, vi } from 'vitest'
import { ApiError, getCatalog, getView, getWindow, lastView } from './client'

afterEach(() => vi.unstubAllGlobals())

test('a catalog that did not change is neither decoded nor a new object', async () => {
  vi.stubGlobal('document', { baseURI: 'http://localhost/' })
  let tag = 'W/"1"'
  const decoded: string[] = []
  const answer = () => {
    const response = new Response('{"runs": []}', { headers: { etag: tag } })
    const json = response.json.bind(response)
    response.json = () => {
      decoded.push(tag)
      return json()
    }
    return Promise.resolve(response)
  }
  vi.stubGlobal('fetch', answer)
  const first = await getCatalog()
  expect(await getCatalog()).toBe(first)
  tag = 'W/"2"'
  expect(await getCatalog()).not.toBe(first)
  expect(decoded).toEqual(['W/"1"', 'W/"2"'])
})

test('a view is kept as long as its answer holds, and by its query', async () => {
  vi.stubGlobal('document', { baseURI: 'http://localhost/' })
  let tag: string | null = 'W/"1"'
  vi.stubGlobal('fetch', () =>
    Promise.resolve(new Response(JSON.stringify({ payloads: {} }), { headers: tag ? { etag: tag } : {} })),
  )
  const ask = async (query = { run: 'a' }) => {
    const answer = await getView('model', query)
    return answer.state === 'ready' ? answer.data : null
  }
  expect(lastView('model', { run: 'a' })).toBeNull()
  const first = await ask()
  expect(lastView('model', { run: 'a' })).toBe(first)
  expect(await ask()).toBe(first)
  tag = 'W/"2"'
  const second = await ask()
  expect(second).not.toBe(first)
  expect(lastView('model', { run: 'a' })).toBe(second)
  expect(lastView('model', { run: 'b' })).toBeNull()
  tag = null
  await ask()
  expect(lastView('model', { run: 'a' })).toBeNull()
  tag = 'W/"3"'
  for (let i = 0; i < 60; i++) await ask({ run: `run ${i}` })
  expect(lastView('model', { run: 'run 0' })).toBeNull()
  expect(lastView('model', { run: 'run 59' })).not.toBeNull()
})

test('a window to hand on comes packed, and says why it does not come', async () => {
  vi.stubGlobal('document', { baseURI: 'http://localhost/' })
  const asked: string[] = []
  let response = new Response(new Uint8Array([1, 2]))
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url)
    return Promise.resolve(response)
  })
  const get = () => getWindow({ run: 'a', start_ns: 5 }, new AbortController().signal)
  expect(new Uint8Array(await get())).toEqual(new Uint8Array([1, 2]))
  expect(asked).toEqual(['http://localhost/download/window?run=a&start_ns=5&packed=1'])
  const why = async () => {
    const error: unknown = await get().catch((caught) => caught)
    return error instanceof ApiError ? error.problem.what : error
  }
  response = new Response('', { headers: { 'content-length': String(3 * 2 ** 30) } })
  expect(await why()).toContain('too large to send to Perfetto in the browser (3072 MiB compressed)')
  response = new Response('{}', { status: 202 })
  expect(await why()).toContain('loading again')
  response = new Response('{"error": {"what": "The storage refused.", "where": "", "do": ""}}', { status: 502 })
  expect(await why()).toBe('The storage refused.')
  response = new Response('')
  response.arrayBuffer = () => Promise.reject(new RangeError('Array buffer allocation failed'))
  expect(await why()).toContain('too large')
  response.arrayBuffer = () => Promise.reject(new TypeError('network error'))
  expect(await why()).toBe('The download was interrupted.')
})
