import { MantineProvider } from '@mantine/core'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test, vi } from 'vitest'
import { type AllWorkers, AllWorkersFrame } from './allWorkers'

// It asks for the window, and no problem is shown here that a way out leads from.
vi.mock('../../state/urlState', () => ({ setRoute: () => undefined }))

const ALL: AllWorkers = {
  query: {},
  resource: { data: null, busy: true, problem: null, fraction: 0.5 },
  workers: 70,
  noun: 'snapshot',
  unread: 69,
  bytes: 1024,
  isHeld: true,
  isWanted: false,
  want: () => undefined,
}

function shown(all: AllWorkers): string {
  const html = renderToStaticMarkup(
    <MantineProvider>
      <AllWorkersFrame all={all} why="Why.">
        {() => 'the answer'}
      </AllWorkersFrame>
    </MantineProvider>,
  )
  return html.replaceAll(/<style.*?<\/style>/gs, '').replaceAll(/<[^>]*>/g, '')
}

test('what is read is called what it is, and may be in the cache already', () => {
  const asks = shown(ALL)
  expect(asks).toContain('This view reads up to 69 snapshotsWhy. Up to 1.00 KiB will be read')
  expect(asks).not.toContain('trace')
  expect(shown({ ...ALL, isHeld: false })).toContain('Reading the snapshots of all workers: 50.0 %, about 35 of 70')
})
