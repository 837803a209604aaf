// The tour of the first visit: started from the help, walked by keyboard, and remembered.
import { expect, test } from 'vitest'
import { setPrefs } from '../src/state/prefs'
import { all, button, byTest, click, open, settle, soon, state, textOf, user } from './page'

const tours = () => all('[data-testid=tour]', document.body)
const stored = () => JSON.parse(localStorage.getItem('torch_trace') ?? '{}').toured

async function start(): Promise<void> {
  setPrefs({ toured: false })
  await open({ run: 'other', view: 'kernels' })
  expect(tours()).toHaveLength(0)
  await click(button('Keyboard shortcuts'))
  await click(await soon(() => button('Take the tour', document.body)))
  await soon(() => expect(tours()).toHaveLength(1))
  expect(state().view).toBe('overview')
}

test('the tour walks through its stops and is remembered', async () => {
  await start()
  const count = Number(/of (\d)/.exec(textOf(byTest('tour', document.body)))?.[1])
  expect(count).toBeGreaterThanOrEqual(3)
  for (let stop = 1; stop < count; stop++) {
    expect(textOf(byTest('tour', document.body))).toContain(`${stop} of ${count}`)
    await user.keyboard('{Enter}')
    await settle()
  }
  await user.keyboard('{Enter}')
  await soon(() => expect(tours()).toHaveLength(0))
  expect(stored()).toBe(true)
})

test('Escape ends the tour', async () => {
  await start()
  await user.keyboard('{Escape}')
  await soon(() => expect(tours()).toHaveLength(0))
  expect(stored()).toBe(true)
})
