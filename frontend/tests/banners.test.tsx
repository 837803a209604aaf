// Notes above the view: what is wrong with the file, and a view without data.
import { expect, test } from 'vitest'
import type { Catalog, Profile, SpanInfo } from '../src/api/payloads'
import { all, byTest, open, patch, textOf } from './page'

const RUN = { run: 'other', view: 'kernels' }

/** The file of the open profile is incomplete, and its span is changed. */
function spoil(read: Partial<Profile['read'] & object>, change: Partial<SpanInfo> = {}): void {
  patch((path, body: never) => {
    if (path.startsWith('profile')) {
      const profile = body as Profile
      return { ...profile, read: { ...profile.read, complete: false, is_damaged: false, ...read } }
    }
    if (path !== 'runs') return undefined
    const catalog = body as Catalog
    for (const run of catalog.runs)
      for (const worker of run.workers) worker.spans = worker.spans.map((span) => ({ ...span, ...change }))
    return catalog
  })
}

test('a file ends early, is damaged, or is still being written', async () => {
  spoil({ events_loaded: 1 }, { modified_unix_ms: Date.now() - 3_600_000 })
  await open(RUN)
  expect(textOf(byTest('cut'))).toMatch(/^This file is truncated. 1 event was read; the rest is missing, often/)
  spoil({ is_damaged: true, events_loaded: 20 }, { modified_unix_ms: Date.now() })
  await open(RUN)
  expect(textOf(byTest('cut'))).toMatch(/^This file is damaged. 20 events were read; .* Copy the file again/)
  spoil({ file_bytes: 2048, is_damaged: false }, { modified_unix_ms: Date.now() })
  await open(RUN)
  expect(textOf(byTest('cut'))).toMatch(/^This file is still being written. .* up to 2.00 KiB. The page reads it again/)
})

test('a deleted file is reported while its data is shown', async () => {
  const problem = { what: 'The file was deleted.', where: '/logs/a.json', do: 'The page shows what was read.' }
  spoil({ complete: true }, { state: 'ready', problem })
  await open(RUN)
  expect(textOf(byTest('deleted'))).toBe('The file was deleted. The page shows what was read. /logs/a.json')
  expect(all('[data-testid=cut]')).toEqual([])
})

test('a view without data says in words what records it: only the option is code', async () => {
  patch((path, body: never) => {
    if (!path.startsWith('profile')) return undefined
    const profile = body as Profile
    const missing = { available: false, why: 'No modules.', enable: 'Record with_modules=True with profile(...).' }
    return { ...profile, views: profile.views.map((view) => (view.id === 'kernels' ? { ...view, ...missing } : view)) }
  })
  const main = await open(RUN)
  expect(textOf(main)).toContain('No modules.To enable this view: Record with_modules=True with profile(...).')
  expect(all('code', main).map(textOf)).toEqual(['with_modules=True', 'profile(...)'])
})
