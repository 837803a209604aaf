// The timeline beside its picture: search, notes, tracks, tables and panels. The picture is tested in tests/browser.
import { expect, test } from 'vitest'
import { originLines } from '../src/pages/timeline/eventOrigin'
import { totalsText } from '../src/pages/timeline/hitsPanel'
import {
  all,
  ask,
  back,
  button,
  byTest,
  click,
  control,
  field,
  one,
  open,
  payloadsOf,
  type Row,
  rowCount,
  rowNames,
  rowsOf,
  settle,
  soon,
  state,
  textOf,
  user,
  valuesOf,
  write,
} from './page'

const RUN = { run: 'other', view: 'timeline' }
const P = 'run=other&worker=rank0&span=1'
const STEPS = 'ProfilerStep'

type Hits = { hits: { rows: Row[]; matched_rows: number }; summary: Parameters<typeof valuesOf>[0] }
const find = (search: string, more = '') =>
  payloadsOf<Hits>(`view/find?${P}&search=${encodeURIComponent(search)}${more}`)
const details = () => one("section[aria-label='Event details']")
const title = () => textOf(one('h2 > span', details()))

test('a search counts its hits and walks from one to the next, around and back', async () => {
  const everywhere = await find(STEPS)
  const { rows } = everywhere.hits
  expect(rows.length).toBeGreaterThan(2)
  // The window begins behind the first hit: the next one is the second.
  const from = Number(rows[0].start_ns) + 1
  const window = { start_ns: String(from), end_ns: String(from + 2_000_000) }
  await open({ ...RUN, search: STEPS, ...window })
  const inside = await find(STEPS, `&start_ns=${window.start_ns}&end_ns=${window.end_ns}`)
  const total = valuesOf(everywhere.summary).events
  expect(textOf(byTest('found'))).toContain(`${total} found, `)
  expect(textOf(byTest('found'))).toContain(` · ${valuesOf(inside.summary).events} visible`)
  expect(total).toBe(rows.length)
  const at = async (place: number) => {
    await settle()
    await soon(() => expect(state().event).toBe(String(rows[place].event)))
    expect(textOf(byTest('hits'))).toContain(`${place + 1} of ${total}`)
  }
  for (const place of [...rows.keys()].slice(1).concat(0, 1)) {
    await user.click(button('Next hit'))
    await at(place)
  }
  for (const place of [0, rows.length - 1]) {
    await user.click(button('Previous hit'))
    await at(place)
  }
  // Enter does the same, and Shift with it goes back.
  field('Search names').focus()
  for (const [keys, place] of [
    ['{Enter}', 0],
    ['{Enter}', 1],
    ['{Shift>}{Enter}{/Shift}', 0],
  ] as const) {
    await user.keyboard(keys)
    await at(place)
  }
})

test('a query lists its hits with totals, and a row leads to its event', async () => {
  const query = 'kind:kernel dur>20us'
  await open({ ...RUN, search: query })
  await click(button('List'))
  expect(state().list).toBe('1')
  const list = one("section[aria-label='Hits']")
  const { summary } = await find(query)
  const values = valuesOf(summary)
  expect(textOf(one('h2', list))).toContain(`${values.events} found`)
  expect(textOf(one('h2', list))).toContain('per step ')
  const { rows, matched_rows } = await ask<{ rows: Row[]; matched_rows: number }>(
    `table/find/hits?${P}&in=first&search=${encodeURIComponent(query)}&offset=0&limit=200`,
  )
  expect(rowCount()).toBe(matched_rows)
  expect(rows.every(({ kind, dur_ns }) => kind === 'kernel' && Number(dur_ns) > 20_000)).toBe(true)
  expect((one('a[download]', list) as HTMLAnchorElement).href).toContain('table/find/hits?')
  await click(one('[data-index="1"] [role=rowheader] button', list))
  expect(state().event).toBe(String(rows[1].event))
  await click(button('Close the list'))
  expect(state().list).toBeUndefined()
})

test('a wrong term is named with the fields', async () => {
  await open({ ...RUN, search: 'duration>3us' })
  expect(textOf(byTest('toolbar'))).toContain('duration is not a field. Fields: dur, kind')
  expect(all("section[aria-label='Hits']")).toEqual([])
})

test('examples of queries can be chosen', async () => {
  await open(RUN)
  field('Search names').focus()
  await click(await soon(() => button(/^kind:kernel/)))
  expect(state().search).toBe('kind:kernel')
})

test('clicks that are faster than answers each go one hit on', async () => {
  const { rows } = (await find(STEPS)).hits
  await open({ ...RUN, search: STEPS, start_ns: '0', end_ns: '1000000' })
  for (let i = 0; i < 3; i++) button('Next hit').click()
  await soon(() => expect(state().event).toBe(String(rows[2].event)))
  await settle()
  expect(textOf(byTest('hits'))).toContain(`3 of ${rows.length}`)
})

test('where nothing is found the page says so, and leads nowhere', async () => {
  await open({ ...RUN, search: 'no such name' })
  expect(textOf(byTest('found'))).toContain('No event matches. Track names are searched in the menu Tracks.')
  expect((button('Next hit') as HTMLButtonElement).disabled).toBe(true)
})

test.each(['/(/', '/(?<!a+)b/'])('a search that cannot be made does not wait for ever: %s', async (search) => {
  await open({ ...RUN, search })
  expect(all('[data-testid=hits]').map(textOf).join()).not.toContain('…')
  expect(textOf(byTest('toolbar'))).toContain('regular expression')
})

test('a window between nanoseconds is the nearest one', async () => {
  await open({ ...RUN, start_ns: '10000000.5', end_ns: '11000000.25' })
  expect(textOf(byTest('timeline-foot'))).toContain('1.00 ms visible')
})

test('what is in sight is a table as well, and a row is the chosen event', async () => {
  const window = { start_ns: '10000000', end_ns: '11000000' }
  await open({ ...RUN, ...window })
  await click(button('As text'))
  const path = `table/events/instances?${P}&start_ns=${window.start_ns}&end_ns=${window.end_ns}&offset=0&limit=200`
  const { rows, matched_rows } = await ask<{ rows: Row[]; matched_rows: number }>(path)
  expect(rowCount()).toBe(matched_rows)
  // Names of all kinds stand as they are; those of kernels are shortened.
  expect(rowNames().slice(0, 3)).toEqual(rows.slice(0, 3).map(({ name }) => name))
  await click(one('[data-index="1"] [role=rowheader] button'))
  expect(state().event).toBe(String(rows[1].event))
  expect(title()).toBe(rows[1].name)
  await click(button('As chart'))
  expect(all('[data-testid=timeline] canvas')).toHaveLength(1)
})

test('a kernel leads to its launch and to its operator', async () => {
  const [kernel] = await rowsOf(`table/events/instances?${P}&where=kind%3Akernel`)
  await open({ ...RUN, event: String(kernel.event) })
  for (const partner of ['launch', 'operator']) {
    const payloads = await payloadsOf(`view/events?${P}&event=${state().event}`)
    await click(button(`Go to ${partner}`))
    expect(state().event).toBe(String(valuesOf(payloads[partner]).event))
  }
  expect(title()).toBe(kernel.operator)
})

test('a range of the link says what ran in it', async () => {
  const range = { from_ns: '10000000', to_ns: '30000000' }
  await open({ ...RUN, ...range })
  const marked = () => one("section[aria-label$=' marked']")
  const path = `${P}&start_ns=${range.from_ns}&end_ns=${range.to_ns}`
  type Range = { range: { rows: Row[]; matched_rows: number }; summary: Parameters<typeof valuesOf>[0] }
  const server = await payloadsOf<Range & { range_devices: { rows: Row[] } }>(`view/range?${path}`)
  const count = () => Number(one('[role=table]', marked()).getAttribute('aria-rowcount')) - 1
  const rowsIn = (group: string, more = '') =>
    ask<{ matched_rows: number; total_rows: number; rows: Row[] }>(
      `table/range/range?${path}${more}&where=range_group%3A${group}&offset=0&limit=200`,
    )
  // Kernels first; the tabs divide all rows.
  const kernels = await rowsIn('kernel')
  expect(count()).toBe(kernels.matched_rows)
  let sum = kernels.matched_rows
  const tabs = all('input[type=radio]', marked()) as HTMLInputElement[]
  const others = tabs.slice(1).filter(({ value }) => value !== 'streams')
  expect(others.length).toBeGreaterThan(1)
  for (const tab of others) {
    const group = tab.value
    await click(tab)
    expect(state().within).toBe(group)
    expect(count()).toBe((await rowsIn(group)).matched_rows)
    sum += count()
  }
  expect(sum).toBe(server.range.matched_rows)
  await click(control('radio', 'Kernels', marked()))
  const head = textOf(one('header', marked()))
  expect(head).toContain(`${valuesOf(server.summary).events?.toLocaleString('en-US')} events`)
  const [device] = server.range_devices.rows
  expect(head).toContain(`device ${device.device} busy`)
  expect(head).toContain((100 * Number(device.busy_ratio)).toFixed(1))
  // A row opens to its events in the range.
  await click(one('[role=rowheader] button', marked()))
  expect(textOf(byTest('detail', marked()))).toContain(`${kernels.rows[0].events?.toLocaleString('en-US')}`)
  // A search of the timeline narrows the list.
  await open({ ...RUN, ...range, search: 'aten::' })
  const found = await rowsIn('operator', `&search=${encodeURIComponent('aten::')}`)
  expect(count()).toBe(found.matched_rows)
  expect(found.matched_rows).toBeGreaterThan(0)
  await click(button('Clear'))
  expect(state().from_ns).toBeUndefined()
  expect(all("section[aria-label$=' marked']")).toEqual([])
})

test('tracks are pinned, moved, closed and filtered in the menu', async () => {
  const { timeline } = await payloadsOf<{ timeline: { tracks: { id: string }[] } }>(`view/timeline?${P}`)
  const ids = timeline.tracks.map(({ id }) => id)
  await open({ ...RUN, charts: 'none' })
  await click(button('Tracks'))
  await soon(() => byTest('track'))
  const names = () => all('[data-testid=track] label').map(textOf)
  const first = names()
  const list = (key: string) => (state()[key] ?? '').split(',').filter(Boolean).map(decodeURIComponent)
  expect(first).toHaveLength(ids.length)
  await click(button(`Pin ${first[4]}`))
  expect(list('pin')).toEqual([ids[4]])
  expect(names()[0]).toBe(first[4])
  await click(button(`Move ${first[2]} up`))
  expect(list('lanes')).toEqual([ids[0], ids[2], ids[1]])
  expect(names().slice(1, 4)).toEqual([first[0], first[2], first[1]])
  await click(button(`Move ${first[2]} down`))
  expect(list('lanes')).toEqual([])
  await click(control('box', first[0]))
  expect(list('shut')).toEqual([ids[0]])
  await write(field('Filter tracks'), 'autograd')
  // What is pinned stays, whatever the filter says.
  expect(names()).toEqual(first.filter((name, i) => i === 4 || /autograd/i.test(name)))
  expect(state().tracks).toBe('autograd')
  await click(button('Reset'))
  expect(Object.keys(state()).filter((key) => ['pin', 'lanes', 'shut', 'tracks'].includes(key))).toEqual([])
})

test('buttons on the name of a track pin, hide, close and sum it up', async () => {
  const window = { start_ns: '10000000', end_ns: '30000000' }
  await open({ ...RUN, ...window, charts: 'none' })
  await soon(() => byTest('track-head'))
  const titles = () => all('[data-testid=track-head]').map((head) => head.getAttribute('aria-label') ?? '')
  const [first, second, third] = titles()
  await click(button(`Hide ${first}`))
  await soon(() => expect(titles()).not.toContain(first))
  await click(button(`Pin ${third}`))
  await soon(() => expect(titles().slice(0, 2)).toEqual([third, second]))
  await click(button(`Rows of ${second}`))
  await soon(() => expect(button(`Rows of ${second}`).getAttribute('aria-expanded')).toBe('false'))
  // The menu has the same state, and shows what is hidden.
  await click(button(/^Tracks \(/))
  await click(button(new RegExp(`^Hide ${first} · `), await soon(() => byTest('track').parentElement as HTMLElement)))
  await soon(() => expect(titles()).toContain(first))
  expect(state().hide).toBeUndefined()
  await click(button(`Summary of ${second}`))
  const id = decodeURIComponent(state().track)
  const summary = await soon(() => one("section[aria-label$=' visible']"))
  await settle()
  expect(summary.getAttribute('aria-label')).toContain(second)
  const path = `${P}&track=${encodeURIComponent(id)}&start_ns=${window.start_ns}&end_ns=${window.end_ns}`
  const server = await payloadsOf<{ range: { matched_rows: number } }>(`view/range?${path}`)
  expect(Number(one('[role=table]', summary).getAttribute('aria-rowcount')) - 1).toBe(server.range.matched_rows)
})

test('the effect of the wheel is a choice that is remembered', async () => {
  await open({ ...RUN, charts: 'none' })
  await click(button('Display'))
  await click(control('radio', /^Zooms/))
  expect(JSON.parse(localStorage.torch_trace)).toMatchObject({ wheel: 'zoom' })
})

test('bookmarks of the link are listed, lead to their place and go', async () => {
  await open({ ...RUN, start_ns: '0', end_ns: '1000000', bookmarks: '30000000:<b>late</b>' })
  await click(button('Bookmarks 1'))
  await click(await soon(() => one('[title="Go to bookmark"]')))
  await soon(() => expect(state().start_ns).not.toBe('0'))
  expect(Number(state().start_ns)).toBeLessThan(30_000_000)
  expect(Number(state().end_ns)).toBeGreaterThan(30_000_000)
  expect(all('input').map((input) => (input as HTMLInputElement).value)).toContain('<b>late</b>')
  await click(button(/^Remove the bookmark/))
  expect(state().bookmarks).toBeUndefined()
})

test('a row of a table leads to its events, and the chip leads back', async () => {
  await open({ run: 'other', view: 'kernels' })
  const [row] = await rowsOf(`table/kernels/kernels?${P}&offset=0&limit=200`)
  await click(one('[data-index="0"] [role=rowheader] button'))
  const left = state()
  await click(button('Show in timeline', byTest('detail-name')))
  expect(state()).toMatchObject({ view: 'timeline', hit: `name:${row.name}` })
  // They are counted and walked.
  const { hits } = await payloadsOf<Hits>(`view/find?${P}&where=${encodeURIComponent(`name:${row.name}`)}`)
  expect(hits.matched_rows).toBe(row.calls)
  expect(textOf(byTest('hits'))).toContain(`${row.calls} found`)
  await click(button('Next hit'))
  expect(hits.rows.map(({ event }) => String(event))).toContain(state().event)
  expect(title()).toBe(row.name)
  await click(button('Show in table'))
  expect(state()).toEqual(left)
  expect(all('[data-testid=detail]')).toHaveLength(1)
})

test('the link alone finds the row too, and the highlight ends', async () => {
  await open({ ...RUN, hit: 'name:aten::mm\u001fkind:operator', from_view: 'operators', row: 'aten::mm' })
  expect(all('[data-testid=chip]')).toHaveLength(1)
  await click(button('Show in table'))
  expect(state()).toMatchObject({ view: 'operators', where: 'name:aten::mm', row: 'aten::mm' })
  expect(rowNames()).toHaveLength(1)
  await back()
  await click(button('Clear the highlight'))
  expect(Object.keys(state()).filter((key) => ['hit', 'from_view', 'row'].includes(key))).toEqual([])
  expect(all('[data-testid=chip]')).toEqual([])
})

test.each(['operators', 'kernels'])('an event leads to its row of the %s', async (view) => {
  const [{ name }] = await rowsOf(`table/${view}/${view}?${P}&offset=0&limit=200`)
  const [{ event }] = await rowsOf(`table/events/instances?${P}&where=${encodeURIComponent(`name:${name}`)}`)
  await open({ ...RUN, event: String(event) })
  await click(button(`Show in ${view}`))
  expect(state().view).toBe(view)
  expect(all('[data-testid=detail]')).toHaveLength(1)
  expect(rowNames()[0].slice(0, 8)).toBe(String(name).slice(0, 8))
})

test('an entry of the legend hides its kind, and the link holds it', async () => {
  await open(RUN)
  const legend = () => byTest('timeline-key')
  await click(button(/^operator/, legend()))
  expect(state().off).toBe('operator')
  await click(button(/^runtime/, legend()))
  expect(state().off).toBe('operator\u001fruntime')
  expect(button(/^operator/, legend()).getAttribute('aria-pressed')).toBe('false')
  await click(button(/^operator/, legend()))
  expect(state().off).toBe('runtime')
  await click(button('Show all', legend()))
  expect(state().off).toBeUndefined()
})

test('a tooltip has two lines at most about the origin', () => {
  const line = '/opt/lib/python3.11/site-packages/torchvision/models/resnet.py(124): forward'
  expect(originLines('aten::conv_backward', 'aten::conv2d', line)).toEqual([
    'aten::conv_backward · forward aten::conv2d',
    'torchvision/models/resnet.py(124): forward',
  ])
  expect(originLines('aten::mm', 'aten::mm', '')).toEqual(['aten::mm'])
  expect(originLines('', '', '')).toEqual([])
})

test('totals of hits per step', () => {
  const found = { total: 3, inSight: 1, totalNs: 6000, position: null, problem: null }
  expect(totalsText({ ...found, perStep: null })).toBe('total 6.00 µs · mean 2.00 µs')
  expect(totalsText({ ...found, perStep: { events: 1.5, ns: 3000 } })).toContain('per step 3.00 µs in 1.50 events')
})

test('colours by class are offered where there are kernels', async () => {
  await open({ run: 'many_a', view: 'timeline', colors: 'class' }, 'odd')
  // The key speaks of what the trace may hold.
  expect(textOf(byTest('timeline-key'))).not.toMatch(/GEMM|kernel/)
  await click(button('Display'))
  expect(field('By kernel class').disabled).toBe(true)
})
