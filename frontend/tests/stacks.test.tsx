// Stacks: choices are in the address, functions open into callers and callees, threads are chosen, exports agree.
import { expect, test } from 'vitest'
import {
  all,
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
  patch,
  payloadsOf,
  type Row,
  rowsOf,
  settle,
  soon,
  state,
  textOf,
  user,
  write,
} from './page'

const RUN = { run: 'other', view: 'stacks', fold: 'none' }
const P = 'run=other&worker=rank0&span=1'

interface Tree {
  rows: Row[]
  parent: number[]
  total_nodes: number
}
type Stacks = { stacks: Tree; threads: { rows: Row[] }; callers: Tree; functions: { total_rows: number } }
const stacksOf = (more = '', place = P) => payloadsOf<Stacks>(`view/stacks?${place}${more}`)
const count = () => textOf(byTest('count'))
const folded = async () => {
  await click(button('Save as'))
  const link = (await soon(() => control('link', /^Folded stacks/))) as HTMLAnchorElement
  await user.keyboard('{Escape}')
  return link.href
}

test('choices are in the address and in the exports', async () => {
  await open(RUN)
  await choose(field('Measure'), 'device')
  await choose(field('Frame type'), 'operators')
  expect(state()).toMatchObject({ weight: 'device', of: 'operators' })
  const link = await folded()
  expect(link).toContain('weight=device')
  expect(link).toContain('of=operators')
})

test('a search sums its matches and goes from one to the next, out of a zoom', async () => {
  const { stacks } = await stacksOf()
  const name = 'aten::linear'
  const around = (place: number): number[] => {
    const above = stacks.parent[place]
    return above < 0 ? [] : [above, ...around(above)]
  }
  const hits = [...stacks.rows.keys()].filter((place) => String(stacks.rows[place].name).includes(name))
  const outer = hits.filter((hit) => !around(hit).some((above) => hits.includes(above)))
  const sum = (places: number[]) => places.reduce((all, place) => all + Number(stacks.rows[place].host_ns), 0)
  const roots = [...stacks.rows.keys()].filter((place) => stacks.parent[place] < 0)
  await open(RUN)
  await write(field('Search places'), name)
  await soon(() => expect(state().search).toBe(name))
  await settle()
  expect(count()).toContain(`${hits.length} of `)
  expect(count()).toContain(`(${((100 * sum(outer)) / sum(roots)).toFixed(1)} %)`)
  for (const hit of hits.slice(0, 2)) {
    await user.keyboard('{Enter}')
    await settle()
    expect(state().row).toBe(String(hit))
  }
  expect(count()).toContain('2 / ')
  await click(button('Previous match'))
  expect(state().row).toBe(String(hits[0]))
  const last = String(hits.at(-1))
  await open({ ...RUN, search: name, zoom: last, row: last })
  await click(button('Next match'))
  expect(state().row).toBe(String(hits[0]))
  expect(state().zoom).toBeUndefined()
})

test('a function opens into its callers and callees', async () => {
  await open(RUN)
  await click(control('radio', 'Functions'))
  const [{ name }] = await rowsOf(`table/stacks/functions?${P}&offset=0&limit=200`)
  const sandwich = () => textOf(byTest('sandwich'))
  await click(one('[role=rowheader] button'))
  expect(state()).toMatchObject({ form: 'functions', row: name })
  const { callers } = await stacksOf(`&function=${encodeURIComponent(String(name))}`)
  for (const side of ['Callers', 'Callees'])
    expect(textOf(one('[role=treeitem]', one(`[aria-label=${side}]`))).startsWith(String(name))).toBe(true)
  const caller = String(callers.rows[1].name)
  await click(all('[role=treeitem]', one('[aria-label=Callers]'))[1])
  await click(button('Open this function'))
  expect(sandwich().startsWith(caller)).toBe(true)
  await back()
  expect(sandwich().startsWith(String(name))).toBe(true)
  await click(button('Find in flame graph'))
  expect(count()).toContain(' match')
  expect(state().form).toBeUndefined()
})

test('folding is in the address and in the exports', async () => {
  await open({ ...RUN, fold: '' })
  const [whole, less] = [(await stacksOf()).stacks.total_nodes, (await stacksOf('&fold=framework')).stacks.total_nodes]
  expect(count()).toContain(`${less.toLocaleString('en-US')} place`)
  expect(less).toBeLessThanOrEqual(whole)
  // A file has all frames unless one says otherwise.
  expect(await folded()).not.toContain('fold=framework')
  await click(button('Display'))
  await click(await soon(() => field('All frames')))
  expect(state().fold).toBe('none')
  expect(count()).toContain(`${whole.toLocaleString('en-US')} place`)
  await click(await soon(() => field('Merged into their caller')))
  await user.keyboard('{Escape}')
  expect(await folded()).toContain('fold=framework')
})

test('idle threads are named and counted on demand', async () => {
  const idle = { thread: 'monitor', thread_key: '1:0', events: 3, thread_host_ns: 10, thread_wait_ns: 10 }
  patch((path, body: { payloads: Stacks }) => {
    if (!path.startsWith('view/stacks')) return undefined
    body.payloads.threads.rows.push({ ...idle, thread_idle: true })
    return body
  })
  await open(RUN)
  expect(textOf(byTest('idle'))).toMatch(/^1 idle thread hidden: monitor, 10/)
  await click(button('Threads: Busy threads'))
  const boxes = await soon(() => {
    const found = all('[data-testid=thread]')
    if (found.length === 0) throw new Error('no threads yet')
    return found
  })
  expect(textOf(boxes.at(-1) as HTMLElement)).toMatch(/^monitor/)
  expect((one('input', boxes.at(-1)) as HTMLInputElement).checked).toBe(false)
  await user.keyboard('{Escape}')
  await click(button('Show it'))
  expect(state().thread).toBe('all')
  expect(all('[data-testid=idle]')).toEqual([])
})

test('any threads are chosen in the menu, and everything follows', async () => {
  const { threads } = await stacksOf()
  const keys = threads.rows.map(({ thread_key }) => String(thread_key))
  const working = threads.rows.filter(({ thread_idle }) => !thread_idle)
  expect(working.length).toBeGreaterThan(1)
  await open(RUN)
  const chosen = () => (state().thread ?? '').split(',').map(decodeURIComponent)
  await click(button(/^Threads: /))
  const boxes = await soon(() => {
    const found = all('[data-testid=thread] input') as HTMLInputElement[]
    if (found.length === 0) throw new Error('no threads yet')
    return found
  })
  expect(boxes.map(({ checked }) => checked)).toEqual(threads.rows.map(({ thread_idle }) => !thread_idle))
  await click(boxes[keys.indexOf(String(working[0].thread_key))])
  const rest = working.slice(1).map(({ thread_key }) => String(thread_key))
  expect(chosen()).toEqual(rest)
  await user.keyboard('{Escape}')
  const said = rest.length > 1 ? `${rest.length} of ${keys.length} threads` : String(working[1].thread)
  expect(named('button', `Threads: ${said}`)).toHaveLength(1)
  const { stacks } = await stacksOf(rest.map((key) => `&thread=${encodeURIComponent(key)}`).join(''))
  const roots = stacks.rows.filter((_, place) => stacks.parent[place] < 0)
  const time = (rows: Row[], key: string) => rows.reduce((sum, row) => sum + Number(row[key]), 0)
  expect(time(roots, 'host_ns')).toBe(time(working.slice(1), 'thread_host_ns'))
  expect(count()).toContain(`${stacks.total_nodes.toLocaleString('en-US')} place`)
  expect(await folded()).toContain(`thread=${encodeURIComponent(rest[0])}`)
  await click(button(`Threads: ${said}`))
  await click(await soon(() => button(`Only ${working[0].thread}`)))
  expect(chosen()).toEqual([working[0].thread_key])
  await back()
  expect(chosen()).toEqual(rest)
})

test('a link to the editor opens the local path of a recorded path', async () => {
  const name = '/cluster/src/train.py(7): step'
  patch((path, body: { payloads: Stacks }) => {
    if (path === 'runs') return { ...body, path_mappings: [{ recorded: '/cluster', local: '/home/me' }] }
    if (!path.startsWith('view/stacks')) return undefined
    body.payloads.stacks.rows[0].name = name
    return body
  })
  await open({ ...RUN, row: '0' })
  const link = control('link', 'Open /home/me/src/train.py:7 in the editor') as HTMLAnchorElement
  expect(link.href).toBe('vscode://file/home/me/src/train.py:7')
  expect(textOf(byTest('source')), 'the recorded path is shown').toContain('/cluster/src/train.py:7')
})
