// The comparison of two profiles: choosing them, going down the tree, and the ways into each side's own view.
import { expect, test } from 'vitest'
import {
  all,
  ask,
  asked,
  back,
  button,
  byTest,
  choose,
  click,
  control,
  field,
  main,
  named,
  navigate,
  one,
  open,
  patch,
  payloadsOf,
  pick,
  rowNames,
  settle,
  soon,
  state,
  textOf,
  user,
  valuesOf,
} from './page'

const EVIL = '<img src=x onerror=alert(1)>'
const BASE = { base_run: 'twice', base_worker: 'rank0', base_span: '1' }
const SPANS = { run: 'twice', span: '2', ...BASE }
const ASKED = 'run=twice&worker=rank0&span=2&base_run=twice&base_worker=rank0&base_span=1'

const headline = () => all('[data-testid=headline] dd b').map(textOf)
const calls = () => all('[data-testid=call-tree] [role=treeitem]')
const callNames = () => calls().map((call) => call.querySelector<HTMLElement>('[title]')?.title)
const cells = () => calls().map(textOf)

test('a baseline is chosen by hand, and Back takes it away', async () => {
  await open({ view: 'diff', run: 'twice', span: '2' })
  const first = headline()
  // The page chose one, and names it: the link shows the same when other runs have come.
  expect(state()).toMatchObject(BASE)
  await pick('Run', 'other', 'Comparison')
  expect(state().base_run).toBe('other')
  const path = asked.findLast((one) => one.startsWith('view/diff') && one.includes('base_run=other')) ?? ''
  const figures = valuesOf((await payloadsOf(path)).headline)
  const exact = all('[data-testid=headline] dd b [title]').map(({ title }) => title)
  const keys = ['base_step_ns', 'exp_step_ns', 'delta_step_ns']
  expect(exact.slice(0, 3)).toEqual(keys.map((key) => `${figures[key]?.toLocaleString('en-US')} ns`))
  expect(headline()).not.toEqual(first)
  await back()
  expect(state().base_run).toBe('twice')
  expect(headline()).toEqual(first)
})

test('the baseline has steps of its own', async () => {
  await open({ view: 'diff', ...SPANS })
  await user.click(button(/^Steps/, one('[aria-label=Comparison]')))
  await click(await soon(() => button('only')))
  const { steps } = await ask<{ steps: { label: string }[] }>('profile?run=twice&worker=rank0&span=1')
  expect(state().base_steps).toBe(steps[0].label)
  expect(textOf(byTest('headline'))).toContain('1 step')
})

test('Swap turns every sign', async () => {
  await open({ view: 'diff', steps: '2', base_steps: '1', ...SPANS })
  const [base, experiment, change] = headline()
  await click(button('Swap'))
  expect(state()).toMatchObject({ span: '1', steps: '1', base_span: '2', base_steps: '2' })
  const turned = change.includes('-') ? change.replace('-', '+') : change.replace('+', '-')
  expect(headline().slice(0, 3)).toEqual([experiment, base, turned])
  await back()
  expect(headline().slice(0, 2)).toEqual([base, experiment])
})

test('the call tree opens and closes, by hand and by keys', async () => {
  await open({ view: 'diff', measure: 'host_total_ns', ...SPANS })
  expect(callNames()).toEqual(['Data loading', 'Forward', 'Backward', 'Optimizer'])
  await click(calls()[1])
  one('[data-testid=call-tree] [role=tree]').focus()
  await user.keyboard('{ArrowRight}')
  await settle()
  expect(callNames().length).toBeGreaterThan(4)
  expect(calls()[2].getAttribute('aria-level')).toBe('2')
  await user.keyboard('{ArrowLeft}')
  await settle()
  expect(callNames().length).toBe(4)
})

test('the largest change comes first when it is asked for', async () => {
  await open({ view: 'diff', ...SPANS })
  const called = callNames()
  await click(control('radio', 'Largest change'))
  expect(state().order).toBe('change')
  expect([...callNames()].sort()).toEqual([...called].sort())
  const changes = calls().map((call) => Math.abs(Number(textOf(call.lastElementChild).replaceAll(/[<>,]/g, ''))))
  expect(changes).toEqual([...changes].sort((one, other) => other - one))
})

test('the measure and the scaling drive the tree and the tables', async () => {
  await open({ view: 'diff', ...SPANS })
  const measure = () => field('Time in the call tree and the tables')
  const rows = rowNames()
  await choose(measure(), 'host_total_ns')
  expect(state().measure).toBe('host_total_ns')
  expect(rowNames()).not.toEqual(rows)
  const mean = cells()
  await click(control('radio', 'total'))
  expect(state().per).toBe('total')
  expect(cells()).not.toEqual(mean)
})

test('the waterfall is a table as well', async () => {
  await open({ view: 'diff', ...SPANS })
  const card = one(`section[aria-label="From the baseline's step to the experiment's"]`)
  expect(one('[role=img]', card).getAttribute('aria-label')).toContain('Data loading')
  await click(control('radio', 'Table', card))
  const { waterfall } = await payloadsOf<{ waterfall: { parts: { value: number }[] } }>(`view/diff?${ASKED}`)
  expect(all('tbody tr', card)).toHaveLength(waterfall.parts.length + 2)
  const exact = all('tbody tr td:nth-child(2) [title]', card).map(({ title }) => title)
  expect(exact).toEqual(waterfall.parts.map(({ value }) => `${value.toLocaleString('en-US')} ns`))
  // A part leads to its rows.
  await click(button('Operator dispatch', card))
  expect(state()).toMatchObject({ group: 'operators', measure: 'host_self_ns' })
})

test('both sides open on one timeline, aligned by step', async () => {
  await open({ view: 'diff', ...SPANS })
  await click(button('Both timelines'))
  expect(state()).toMatchObject({ view: 'timeline', ranks: 'twice%2Frank0%2F1', detail: 'thin' })
  const sections = all('[data-testid=section]')
  expect(sections.map(({ dataset }) => dataset.way)).toEqual(['wall', 'start'])
  expect(textOf(sections[1])).toContain('Baseline: rank0 · span 1')
})

test('a row leads to either side and back', async () => {
  await open({ view: 'diff', search: 'aten::addmm', steps: '2', base_steps: '1', ...SPANS })
  await click(button('aten::addmm', one('[role=rowheader]')))
  await soon(() => one('[data-testid=detail] table'))
  const detail = textOf(byTest('detail'))
  expect(detail).toContain('CPU self')
  expect(detail).toContain('CPU total')
  const diff = state()
  await click(button('Open in baseline'))
  expect(state()).toMatchObject({ view: 'operators', run: 'twice', span: '1', steps: '1' })
  expect(state().where).toBe('name:aten::addmm')
  expect(rowNames()).toHaveLength(1)
  expect(all('[data-testid=detail]')).toHaveLength(1)
  await back()
  expect(state()).toEqual(diff)
  expect(textOf(byTest('detail'))).toBe(detail)
  await click(button('Open in experiment'))
  expect(state()).toMatchObject({ span: '2', steps: '2' })
  // The list of views leads back to the same comparison, not to one of the experiment with itself.
  await navigate('Compare')
  expect(state()).toEqual(diff)
})

test('a row that is new has no baseline', async () => {
  await open({ view: 'diff', run: 'many_a', base_run: 'markup_a', sort: 'delta_ns', desc: '1' }, 'odd')
  const row = one('[role=row]:has([data-testid=new])')
  const name = one('[role=rowheader] [title]', row).title
  await click(one('[aria-expanded=false]', row))
  await soon(() => one('[data-testid=detail] table'))
  expect(named('button', 'Open in baseline')).toEqual([])
  await click(button('Open in experiment'))
  expect(state().view).toBe('operators')
  expect(one('[role=rowheader] [title]').title).toBe(name)
})

test('a link shows the same', async () => {
  const values = { node: 'Backward', order: 'change', measure: 'host_total_ns', per: 'total', group: 'modules' }
  await open({ view: 'diff', ...values, ...SPANS })
  const [shown, left] = [textOf(main()), state()]
  await open(left)
  expect(state()).toEqual(left)
  expect(textOf(main())).toBe(shown)
})

test('the baseline survives other views and another experiment', async () => {
  await open({ view: 'diff', node: 'Forward', ...SPANS })
  const before = state()
  for (const title of ['Overview', 'Compare']) await navigate(title)
  expect(state()).toEqual(before)
  await pick('Run', 'other')
  expect(state()).toMatchObject({ run: 'other', base_run: 'twice' })
})

test('a profile like no other is compared with what the person chooses', async () => {
  await open({ view: 'diff', run: 'other' })
  expect(textOf(main())).toContain('Choose a baseline')
  await click(button(/^twice · rank0/, one('[aria-label="Suggested baselines"]')))
  expect(headline().length).toBeGreaterThan(0)
  expect(state().base_run).toBe('twice')
})

test('one profile has nothing to compare with but its steps', async () => {
  await open({ view: 'diff' }, 'one')
  expect(textOf(main())).toContain('No second profile to compare with')
  await click(button(/^Compare with step/))
  expect(headline()).toHaveLength(4)
})

test('a baseline that is not there is named, as text', async () => {
  await open({ view: 'diff', run: 'twice', span: '2', base_run: '<b>gone</b>' })
  const alert = one('[role=alert]')
  expect(textOf(alert)).toContain('There is no profile <b>gone</b> in the log directory.')
  expect(textOf(one('[aria-label=Comparison]'))).toContain('<b>gone</b>')
  await click(button(/^Compare with/, alert))
  expect(headline()).toHaveLength(4)
})

test('steps that the baseline does not have can be let go', async () => {
  await open({ view: 'diff', base_steps: '99', ...SPANS })
  expect(textOf(one('[role=alert]'))).toContain('The baseline has no step 99.')
  await click(button('Compare all steps'))
  expect(headline()).toHaveLength(4)
})

test('a baseline that is being read says how far it is', async () => {
  let reading = true
  patch((path, body: object) =>
    reading && path.startsWith('profile?run=other') ? { ...body, state: 'loading', fraction: 0.43 } : undefined,
  )
  const page = open({ view: 'diff', run: 'twice', span: '2', base_run: 'other' })
  await soon(() => expect(textOf(main())).toMatch(/Baseline: Reading the trace.*43 %/))
  reading = false
  await page
  expect(headline()).toHaveLength(4)
})

test('a baseline that cannot be read says so', async () => {
  await open({ view: 'diff', run: 'markup_a', base_run: 'bad' }, 'odd')
  expect(textOf(one('[role=alert]'))).toMatch(/^Baseline: bad/)
})

test('texts of a trace are no markup', async () => {
  await open({ view: 'diff', run: 'markup_b', base_run: 'markup_a' }, 'odd')
  await click(button('Open all rows'))
  expect(callNames().slice(0, 2)).toEqual(['Forward', EVIL])
  expect(all('#main img')).toEqual([])
})
