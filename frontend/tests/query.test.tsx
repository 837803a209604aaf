import { expect, test } from 'vitest'
import { button, byTest, choose, click, field, open, rowNames, state, textOf } from './page'

test('an example is run, and a row leads to its event', async () => {
  const page = await open({ view: 'sql', run: 'job', worker: 'rank0' })
  expect(rowNames()[0]).toBe('events')
  await choose(field('Examples'), '0')
  expect(state().query).toContain('from operators')
  expect(rowNames()).toContain('aten::mm')
  expect(textOf(byTest('count'))).toMatch(/ rows$/)
  const from = await open({ view: 'sql', run: 'job', worker: 'rank0', query: 'select event, name from kernels' })
  await click(from.querySelector('[role=rowheader]') as HTMLElement)
  await click(button('Show in timeline'))
  expect(state().view).toBe('timeline')
  expect(Number(state().event)).toBeGreaterThan(0)
  expect(page).toBeTruthy()
})

test('a wrong query says why', async () => {
  const page = await open({ view: 'sql', run: 'job', worker: 'rank0', query: 'select nothing from kernels' })
  expect(textOf(page)).toContain('Referenced column "nothing" not found')
})
