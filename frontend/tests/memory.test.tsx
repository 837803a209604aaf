// Memory of a trace: what is live by which group, blocks by ranges, and filters that stand in the address.
import { expect, test } from 'vitest'
import {
  all,
  ask,
  back,
  button,
  byTest,
  choose,
  click,
  control,
  field,
  named,
  one,
  open,
  payloadsOf,
  type Row,
  rowCount,
  rowsOf,
  settle,
  soon,
  state,
  textOf,
  user,
  write,
} from './page'

const RUN = { run: 'other', view: 'memory', device: 'cuda:0' }
const P = 'run=other&worker=rank0&span=1&device=cuda%3A0'
const EVENTS = `table/memory/memory_events?${P}`
const PAGE = '&offset=0&limit=200'
const matched = async (path: string) => (await ask<{ matched_rows: number }>(path)).matched_rows

type Parts = { parts: { metric: { title: string } }[] }
const live = () => one("section[aria-label^='Live at']")

test('what is live is grouped by operator, by line or by phase', async () => {
  await open({ ...RUN })
  const payloads = await payloadsOf<{ live_outermost: Parts; live_operators: Parts }>(`view/memory?${P}`)
  expect(textOf(live())).toContain(payloads.live_outermost.parts[0].metric.title)
  const group = () => field('Group live memory by')
  await choose(group(), 'operator')
  expect(state().live).toBe('operator')
  const [{ metric }] = payloads.live_operators.parts
  expect(textOf(live())).toContain(metric.title)
  await choose(group(), 'phase')
  expect(state().live).toBe('phase')
  await back()
  expect(state().live).toBe('operator')
  await click(named('button', metric.title, live())[0])
  expect(state().where).toBe(`name:${metric.title}`)
})

test('every filter of blocks stands in the address', async () => {
  await open({ ...RUN, group: 'memory_events' })
  const every = rowCount()
  await choose(field('Block state'), 'never released')
  expect(rowCount()).toBe(await matched(`${EVENTS}&where=block_state%3Anever%20released${PAGE}`))
  expect(rowCount()).toBeLessThan(every)
  await back()
  expect(rowCount()).toBe(every)
  expect(state().where).toBeUndefined()
  await click(one('[role=rowheader] button'))
  await user.click(button('Filter by'))
  await click(await soon(() => control('item', /^Step:/)))
  expect(state().where).toMatch(/^allocation_step:/)
  expect(state().row).toBeUndefined()
  const few = rowCount()
  await open(state())
  expect(rowCount()).toBe(few)
})

test('blocks are chosen by ranges of size and lifetime', async () => {
  await open({ ...RUN, group: 'memory_events' })
  const every = rowCount()
  // Rows out of sight are not in the page.
  expect(all('[data-index]').length).toBeLessThan(60)
  let asked = EVENTS
  for (const [label, typed, key, value] of [
    ['Size at least', '1 KiB', 'min_block_bytes', 1024],
    ['Size at most', '0.25 GiB', 'max_block_bytes', 2 ** 28],
    ['Lifetime at least', '10us', 'min_lifetime_ns', 10_000],
  ] as const) {
    await click(named('button', new RegExp(`^${label.split(' ')[0]}: `))[0])
    await write(await soon(() => field(label)), typed, '{Enter}')
    await user.keyboard('{Escape}')
    expect(state()[key]).toBe(String(value))
    asked += `&${key}=${value}`
    expect(rowCount()).toBe(await matched(`${asked}${PAGE}`))
  }
  expect(textOf(byTest('toolbar'))).toContain('Size 1 KiB to 256 MiB')
  await open({ ...RUN, group: 'memory_events', min_block_bytes: String(2 ** 50) })
  await click(button('Clear search and filters'))
  expect(rowCount()).toBe(every)
  expect(state().min_block_bytes).toBeUndefined()
  // What cannot be read as a size is said, and not asked.
  await click(button('Size: any'))
  await user.type(await soon(() => field('Size at least')), 'many{Enter}')
  await soon(() => expect(textOf(document.body)).toContain('For example: 512 B'))
  await settle()
  expect(state().min_block_bytes).toBeUndefined()
})

test('what a step keeps leads to its blocks', async () => {
  await open({ ...RUN, group: 'memory_steps' })
  const [first] = await rowsOf(`table/memory/memory_steps?${P}${PAGE}`)
  await click(one('[role=rowheader] button'))
  await click(button('Show blocks'))
  expect(state().group).toBe('memory_events')
  expect(rowCount()).toBe(first.kept_blocks)
  await back()
  expect(state().group).toBe('memory_steps')
})

test('steps that are not adjacent are named, and other steps are another window', async () => {
  await open({ ...RUN, steps: '0', start_ns: '1000000', end_ns: '2000000' })
  await user.click(button(/^Steps/))
  await click(await soon(() => field('Step 2')))
  expect(state()).toMatchObject({ steps: '0,2' })
  expect(state().start_ns).toBeUndefined()
  expect(textOf(one('#main'))).toContain('Visible steps that are not selected: 1.')
})

test('another device has operators of its own', async () => {
  await open({ ...RUN, device: 'cpu' })
  const { rows, total_rows } = await ask<{ rows: Row[]; total_rows: number }>(
    `table/memory/memory_operators?run=other&worker=rank0&span=1&device=cpu${PAGE}`,
  )
  expect(rows.length).toBeLessThanOrEqual(total_rows)
  expect(rowCount()).toBe(total_rows)
})
