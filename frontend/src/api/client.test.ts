import { afterEach, expect, test, vi } from 'vitest'
import { getCatalog } from './client'

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
