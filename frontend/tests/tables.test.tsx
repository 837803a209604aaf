// Tables: sorted, searched, filtered by classes and steps, opened row by row; and the ways out of them.
import { expect, test } from 'vitest'
import {
  all,
  ask,
  back,
  button,
  byTest,
  choose,
  click,
  column,
  control,
  field,
  main,
  named,
  navigate,
  one,
  open,
  payloadsOf,
  pick,
  type Row,
  rowCount,
  rowNames,
  rowsOf,
  settle,
  soon,
  state,
  textOf,
  user,
  write,
} from './page'

const RUN = { run: 'other' }
const P = 'run=other&worker=rank0&span=1'
const PAGE = '&offset=0&limit=200'
const numbers = (texts: string[]) => texts.map((text) => Number(text.replaceAll(',', '')))
const first = () => one('[role=rowheader] button')
const count = () => textOf(byTest('count'))

test('a click on a header sorts, and a row opens to its events', async () => {
  await open({ ...RUN, view: 'kernels' })
  const head = all('[role=columnheader]').find((node) => textOf(node).startsWith('Calls')) as HTMLElement
  await click(one('button', head))
  expect(state().sort).toBe('calls')
  const shown = numbers(column('Calls'))
  expect(shown.length).toBeGreaterThan(3)
  expect(shown).toEqual([...shown].sort((one, other) => other - one))
  await click(first())
  expect(textOf(byTest('detail')).length).toBeGreaterThan(50)
  await click(first())
  expect(all('[data-testid=detail]')).toEqual([])
})

test('a link survives: it shows the rows that it names', async () => {
  await open({ ...RUN, view: 'operators', search: 'mm' })
  const before = [state(), rowNames()]
  expect(rowNames().every((name) => name.includes('mm'))).toBe(true)
  await open(state())
  expect([state(), rowNames()]).toEqual(before)
})

test('a view that every object has is none', async () => {
  await open({ ...RUN, view: '__proto__' })
  expect(textOf(one('h1'))).toBe('Overview')
})

test('the list of pages and Back walk between views', async () => {
  await open({ ...RUN, view: 'overview' })
  for (const tab of ['Operators', 'Kernels']) await navigate('Operators & kernels', tab)
  expect(state().view).toBe('kernels')
  await back()
  expect(state().view).toBe('operators')
  // What a trace does not have is not offered.
  expect(textOf(one('nav'))).not.toContain('Serving')
})

test('a class filters the table, and Back takes it away', async () => {
  await open({ ...RUN, view: 'kernels' })
  const every = count()
  await click(button('GEMM', one('[aria-label=Classes]')))
  expect(state().where).toBe('class:gemm')
  expect(new Set(column('Class'))).toEqual(new Set(['GEMM']))
  await user.click(field('Class of kernels'))
  await click(await soon(() => control('option', 'Attention')))
  expect(state().where).toBe('class:attention')
  expect(new Set(column('Class'))).toEqual(new Set(['Attention']))
  await back()
  expect(state().where).toBe('class:gemm')
  await back()
  expect(count()).toBe(every)
})

test('device work without an operator opens to its reasons', async () => {
  await open({ ...RUN, view: 'operators', row: '(no operator)' })
  const detail = byTest('detail')
  expect(textOf(detail)).toContain('Graph replay')
  expect(textOf(detail)).not.toMatch(/\b0 calls/)
  await click(button('Show in timeline', detail))
  expect(state().view).toBe('timeline')
})

test('top-level operators have shares, and a row says as many calls as its details', async () => {
  await open({ ...RUN, view: 'operators', group: 'operators_outermost' })
  expect(all('[role=columnheader]').map(textOf).join()).toContain('GPU share')
  await click(all('[role=rowheader] [aria-expanded=false]')[1])
  const calls = textOf(one('[role=cell]', one('[role=row]:has([aria-expanded=true])')))
  expect(textOf(byTest('detail'))).toContain(`Calls${calls}`)
})

test('what is wrong with a search is said', async () => {
  await open({ ...RUN, view: 'operators' })
  await user.type(field('Search operators'), '/[[a/')
  await soon(() => expect(textOf(document.body)).toContain('Not a valid'))
  await settle()
})

test('modules stand in order of execution, of names or of time', async () => {
  await open({ ...RUN, view: 'modules' })
  type Tree = { rows: Row[]; parent: number[]; value_columns: string[] }
  const { tree } = await payloadsOf<{ tree: Tree }>(`view/modules?${P}`)
  const root = tree.parent.findIndex((above) => above < 0)
  const inside = tree.rows.filter((_, i) => tree.parent[i] === root)
  const names = inside.map(({ module }) => String(module))
  const [value] = tree.value_columns
  const shown = () =>
    all('[role=treeitem][aria-level="2"]')
      .map((item) => names.find((name) => textOf(item).startsWith(name)))
      .filter((name) => name !== undefined)
      .slice(0, names.length)
  expect(shown()).toEqual(names)
  await choose(field('Order of the rows'), 'value')
  expect(state().sort).toBe('value')
  const byTime = [...inside].sort((one, other) => Number(other[value]) - Number(one[value]))
  expect(shown()).toEqual(byTime.map(({ module }) => module))
  await choose(field('Order of the rows'), 'name')
  expect(shown()).toEqual([...names].sort())
  // A node leads to its events, and the chip back to the node.
  await click(all('[role=treeitem]')[1])
  const left = state()
  await click(button('Show in timeline'))
  expect(state().hit).toBe(`module:${tree.rows[Number(left.row)].module}`)
  await click(button('Show in table'))
  expect(state()).toEqual(left)
})

const PHASE = 'Optimizer.step#AdamW.step'

test('a phase limits other views until it is cleared', async () => {
  await open({ ...RUN, view: 'phases' })
  expect(textOf(one('[aria-label=Answer]'))).toContain('is the largest phase')
  await click(control('tree', new RegExp(PHASE)))
  await click(button('Select this phase'))
  expect(textOf(byTest('phase'))).toContain(PHASE)
  await navigate('Operators & kernels', 'Operators')
  const rows = await rowsOf(`table/operators/operators?${P}&phase=${encodeURIComponent(PHASE)}${PAGE}`)
  const every = await rowsOf(`table/operators/operators?${P}${PAGE}`)
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.length).toBeLessThan(every.length)
  expect(count()).toContain(`${rows.length} row`)
  expect(all('[data-testid=not-limited]')).toEqual([])
  await navigate('Overview')
  expect(textOf(byTest('not-limited'))).toContain(PHASE)
  await click(one('button', byTest('phase')))
  expect(state().phase).toBeUndefined()
  expect(all('[data-testid=phase]')).toEqual([])
  await back()
  expect(all('[data-testid=phase]')).toHaveLength(1)
})

test('the pattern of counters is shown, changed, corrected and let go', async () => {
  await open({ ...RUN, view: 'phases' })
  const pattern = () => field(/^Counters in names/)
  const steps = () => named('tree', /^ProfilerStep#/).length
  expect(pattern().value).toBe('\\d+')
  expect(steps()).toBe(1)
  await write(pattern(), '[^\\s\\S]', '{Enter}')
  expect(steps()).toBe(3)
  await write(pattern(), '(', '{Enter}')
  expect(textOf(one('[role=alert]'))).toContain('The pattern is not valid')
  expect(pattern().value).toBe('(')
  await write(pattern(), '[0-9]', '{Enter}')
  expect(state().pattern).toBe('[0-9]')
  expect(all('[role=alert]')).toEqual([])
  await write(pattern(), '(', '{Enter}')
  await click(button('Reset phases and grouping'))
  expect(state().pattern).toBeUndefined()
  expect(named('tree', /^ProfilerStep#\*/)).toHaveLength(1)
})

test('a row of phases opens to its own calls', async () => {
  await open({ ...RUN, view: 'phases', form: 'table', row: PHASE })
  const rows = await rowsOf(`table/phases/phases?${P}${PAGE}`)
  const { calls } = rows.find(({ phase }) => phase === PHASE) as Row
  expect(textOf(one('[data-testid=detail] h3 small'))).toMatch(new RegExp(`^${calls},`))
  await click(button('Show in timeline', byTest('detail')))
  expect(state()).toMatchObject({ view: 'timeline', from_view: 'phases' })
})

test('the Overview leads to runtime calls, their callers and the events of those', async () => {
  await open({ ...RUN, view: 'overview', steps: '1' })
  await click(named('button', 'Runtime', one('main'))[0])
  expect(state()).toMatchObject({ view: 'launches', steps: '1' })
  const calls = await rowsOf(`table/launches/runtime_calls?${P}&steps=1${PAGE}`)
  const callers = await rowsOf(`table/launches/runtime_calls_by_caller?${P}&steps=1${PAGE}`)
  const { name } = calls[0]
  const made = callers.filter((row) => row.name === name)
  expect(textOf(byTest('answer'))).toContain(String(name))
  await click(button('Show callers'))
  expect(all('tbody tr', byTest('callers'))).toHaveLength(made.length)
  await click(button('Show these calls in the timeline', byTest('callers')))
  const keys = ['name', 'operator', 'caller_phase', 'caller_frame']
  expect(state().hit).toBe([...keys.map((key) => `${key}:${made[0][key] ?? ''}`), 'kind:runtime'].join('\u001f'))
  await back()
  expect(state()).toMatchObject({ view: 'launches', row: name })
})

test('operators lead to what host self time leaves out', async () => {
  await open({ ...RUN, view: 'operators' })
  await click(one('button', byTest('left-out')))
  expect(state().view).toBe('launches')
})

test('a sequence of kernels leads to its first repeat', async () => {
  const [row] = await rowsOf(`table/launches/kernel_sequences?${P}${PAGE}`)
  await open({ ...RUN, view: 'launches', group: 'kernel_sequences', row: String(row.event) })
  expect(all('[aria-label=Kernels] li')).toHaveLength(Number(row.sequence_length))
  expect(textOf(byTest('launch-answer'))).toMatch(/^[\d.]+ % of \d+ launches/)
  await click(named('button', 'Show in timeline').at(-1) as HTMLElement)
  expect(state()).toMatchObject({ view: 'timeline', event: String(row.event) })
})

test('steps are chosen one by one', async () => {
  await open({ ...RUN, view: 'overview' })
  await user.click(button(/^Steps/))
  await click(await soon(() => field('Step 1')))
  expect(state().steps).toBe('1')
  expect(textOf(main())).toBeTruthy()
  const { steps } = await ask<{ steps: unknown[] }>(`profile?${P}`)
  expect(steps).toHaveLength(3)
})

test('a worker that a run does not have is named, and others can be chosen', async () => {
  await open({ view: 'overview', run: 'job', worker: 'rank37' })
  expect(textOf(one('[role=alert]'))).toContain('There is no profile job / rank37 in the log directory.')
  expect(textOf(one('[role=alert]'))).toContain('Choose another worker above.')
  expect(textOf(button(/^Worker/))).toContain('rank37')
  await pick('Worker', 'rank1')
  expect(state()).toMatchObject({ run: 'job', worker: 'rank1' })
  expect(all('[role=alert]')).toEqual([])
})

test('an unknown run is named as text', async () => {
  await open({ run: '<i>no_such_run</i>', view: 'overview' })
  expect(textOf(main())).toContain('<i>no_such_run</i>')
  expect(all('#main i')).toEqual([])
})

test('Share copies the page as Markdown: its table, as it is sorted', async () => {
  await open({ ...RUN, view: 'kernels', sort: 'calls', desc: '1' })
  await click(button('Share'))
  await click(control('item', 'Copy as Markdown'))
  await soon(() => button('Copied'))
  const text = await navigator.clipboard.readText()
  expect(text.slice(0, 60)).toMatch(/^# Kernels\n\nRun: `other` · Worker: `rank0` · Span: `1`\n/)
  const [first] = rowNames()
  expect(text.split('\n').find((line) => /^\| [^-]/.test(line) && line.includes(first.slice(0, 12)))).toBeDefined()
})

test('on paper a table has all rows that are loaded, and afterwards those in sight', async () => {
  await open({ ...RUN, view: 'kernels' })
  const printed = () => all('tbody tr', one('[data-testid=printed]'))
  window.dispatchEvent(new Event('beforeprint'))
  expect(printed().length).toBe(rowCount())
  window.dispatchEvent(new Event('afterprint'))
  expect(all('[data-testid=printed]')).toEqual([])
})

test('sums are means per step unless totals are asked for', async () => {
  const { steps } = await ask<{ steps: unknown[] }>(`profile?${P}`)
  await open({ ...RUN, view: 'kernels', per: 'step' })
  const [mean] = column('Calls')
  await click(control('radio', 'total'))
  expect(state().per).toBe('total')
  expect(Number(column('Calls')[0]) / Number(mean)).toBe(steps.length)
})
