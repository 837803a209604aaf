// Findings: what to change first, its events, and leaving a finding out by the link.
import { expect, test } from 'vitest'
import { formatRange } from '../src/lib/format'
import {
  all,
  back,
  button,
  byTest,
  click,
  main,
  named,
  one,
  open,
  payloadsOf,
  rowsOf,
  settle,
  state,
  textOf,
  user,
  valuesOf,
} from './page'

const RUN = { run: 'other' }
const P = 'run=other&worker=rank0&span=1'

interface Notice {
  rule: string
  title: string
  todo: string
  snippet: string
  saving: object | null
}

async function noticesOf(more = ''): Promise<Notice[]> {
  const { findings } = await payloadsOf<{ findings: { notices: Notice[] } }>(`view/findings?${P}${more}`)
  return findings.notices
}

const tick = (rule: string) => one('input[type=checkbox]', card(rule))
const card = (rule: string) => one(`[data-testid=finding][data-rule=${rule}]`)
const shown = () => all('[data-testid=finding]').map(({ dataset }) => dataset.rule)
const enter = async (node: HTMLElement) => {
  node.focus()
  await user.keyboard('{Enter}')
  await settle()
}

test('the page says what to change first, and a finding leads to its events', async () => {
  await open({ ...RUN, view: 'findings' })
  const [first, ...others] = await noticesOf()
  expect(shown()).toEqual([first, ...others].map(({ rule }) => rule))
  const answer = all('[data-testid=answer]').map(textOf).join(' ')
  expect(answer).toContain(first.title)
  expect(answer).toContain(first.todo.split(/(?<=\.) (?=[A-Z])/)[0])
  const { rule } = first
  const title = button(/./, card(rule))
  await enter(title)
  expect(state().rule).toBe(rule)
  expect(title.getAttribute('aria-expanded')).toBe('true')
  const events = await rowsOf(`table/findings/finding_events?${P}&where=rule%3A${rule}&offset=0&limit=200`)
  const rows = () => all('tbody tr', card(rule))
  expect(rows()).toHaveLength(Math.min(10, events.length))
  expect(textOf(card(rule))).toContain(`${events.length} event`)
  await click(button('Show in timeline', rows()[0]))
  expect(state()).toMatchObject({ view: 'timeline', event: String(events[0].event), gaps: '1' })
  expect(Number(state().end_ns) - Number(state().start_ns)).toBeLessThanOrEqual(2 * Number(events[0].dur_ns) + 1)
  await back()
  expect(rows()).toHaveLength(Math.min(10, events.length))
  // Its events sort.
  const head = () => all('[role=columnheader], thead th', card(rule)).find((node) => textOf(node).startsWith('Start'))
  for (const descending of [true, false]) {
    await click(one('button', head()))
    expect(head()?.getAttribute('aria-sort')).toBe(descending ? 'descending' : 'ascending')
    expect(state()).toMatchObject({ sort: 'start_ns', desc: descending ? '1' : '0' })
    const at = all('thead th', card(rule)).findIndex((node) => textOf(node).startsWith('Start'))
    const cells = rows().map((row) => Number(textOf(all('td, th', row)[at]).replaceAll(',', '')))
    expect(cells).toEqual([...cells].sort((a, b) => (descending ? b - a : a - b)))
  }
})

test('a dismissed finding stays away until it is restored', async () => {
  await open({ ...RUN, view: 'findings' })
  const [rule, ...others] = (await noticesOf()).map((notice) => notice.rule)
  await click(button(/./, card(rule)))
  await enter(button('Dismiss', card(rule)))
  expect(state().dismissed).toBe(rule)
  // The focus goes to the next one.
  expect(document.activeElement?.id).toBe(`finding-${others[0]}-title`)
  expect(shown()).toEqual(others)
  expect((await noticesOf(`&without=${rule}`)).map((notice) => notice.rule)).toEqual(others)
  await open({ ...RUN, view: 'findings', dismissed: rule })
  const left = () => one('[aria-label=dismissed]')
  expect(textOf(left())).toMatch(/^1 dismissed:/)
  await click(button('Show', left()))
  await enter(button('Restore', left()))
  expect(state().dismissed).toBeUndefined()
  expect(shown()).toEqual([rule, ...others])
  expect(document.activeElement?.id).toBe(`finding-${rule}-title`)
})

test('the Overview opens a finding in place, with its fix to copy', async () => {
  await open({ ...RUN, view: 'overview' })
  const notices = await noticesOf()
  const found = notices.find(({ snippet }) => snippet)
  if (!found) throw new Error('no finding with code')
  await click(button(found.title, card(found.rule)))
  expect(state()).toMatchObject({ view: 'overview', rule: found.rule })
  const opened = textOf(card(found.rule))
  expect(opened).toContain('Why it matters:')
  expect(opened).toContain(found.snippet.replace(/\s+/g, ' '))
  expect(named('button', 'Copy', card(found.rule))).toHaveLength(1)
})

test('selected findings are combined by the server, and the link keeps them', async () => {
  await open({ ...RUN, view: 'overview' })
  const saving = (await noticesOf()).filter((notice) => notice.saving)
  const [one, two] = saving.map(({ rule }) => rule)
  await click(tick(one))
  expect(state().fixed).toBe(one)
  await click(tick(two))
  expect(state().fixed).toBe(`${one},${two}`)
  const fixed = encodeURIComponent([one, two].sort().join(','))
  type After = { after_fixes: { notices: { saving: { low_ns: number; high_ns: number; step_ns: number } }[] } }
  const { after_fixes } = await payloadsOf<After>(`view/findings?${P}&fixed=${fixed}`)
  const { low_ns, high_ns, step_ns } = after_fixes.notices[0].saving
  const text = textOf(byTest('combined'))
  expect(text).toContain('With 2 fixes')
  expect(text).toContain(formatRange(step_ns - high_ns, step_ns - low_ns, 'ns'))
  await open({ ...RUN, view: 'findings', fixed: `${one},${two}` })
  expect(textOf(byTest('combined'))).toBe(text)
  await click(button('Clear selection'))
  expect(state().fixed).toBeUndefined()
  expect(all('[data-testid=combined]')).toEqual([])
})

test('evidence of the largest costs leads to its rows', async () => {
  type Cost = { evidence: { view: string; params: { event?: string } } }
  const { largest_costs } = await payloadsOf<{ largest_costs: { notices: Cost[] } }>(`view/overview?${P}`)
  for (const [i, { evidence }] of largest_costs.notices.entries()) {
    await open({ ...RUN, view: 'overview' })
    await click(named('button', 'Show evidence')[i])
    expect(state().view).toBe(evidence.view)
    if (evidence.view === 'timeline') expect(state().event).toBe(evidence.params.event)
    else expect(all('[role=row]', byTest('grid')).length).toBeGreaterThan(1)
  }
})

test('where nothing is found the page says what was looked for', async () => {
  const notices = await noticesOf()
  const every = notices.map(({ rule }) => rule).join(',')
  await open({ ...RUN, view: 'findings', dismissed: every })
  const { together } = await payloadsOf(`view/findings?${P}&without=${encodeURIComponent(every)}`)
  const { rules, rules_looked } = valuesOf(together)
  expect(textOf(main())).toContain(`${rules_looked} of ${rules}`)
  expect(textOf(main())).toContain(`(${notices.length} `)
})

test('a file of the log directory leaves a finding out for all, and what it says is text', async () => {
  await open({ run: 'other', view: 'findings' }, 'ignored')
  expect(shown()).not.toContain('synchronising_calls')
  const left = one('[aria-label="ignored by torch_trace_ignore"]')
  await click(button('Show', left))
  expect(named('button', 'Restore', left)).toEqual([])
  expect(textOf(one('[aria-label="About torch_trace_ignore"]'))).toContain('<b>bold</b>')
  expect(all('#main b').map(textOf)).not.toContain('bold')
})
