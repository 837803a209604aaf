// Findings: what to change first, its events, and leaving a finding out by the link.
import { expect, test } from 'vitest'
import {
  all,
  back,
  button,
  byTest,
  click,
  main,
  named,
  navigate,
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
  saving: object | null
}

async function noticesOf(more = ''): Promise<Notice[]> {
  const { findings } = await payloadsOf<{ findings: { notices: Notice[] } }>(`view/findings?${P}${more}`)
  return [...findings.notices.filter(({ saving }) => saving), ...findings.notices.filter(({ saving }) => !saving)]
}

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
  const answer = textOf(byTest('answer'))
  expect(answer).toContain(first.title)
  expect(answer).toContain(first.todo)
  const { rule } = first
  const title = button(/./, card(rule))
  await enter(title)
  expect(state().rule).toBe(rule)
  expect(title.getAttribute('aria-expanded')).toBe('true')
  const events = await rowsOf(`table/findings/finding_events?${P}&where=rule%3A${rule}&offset=0&limit=200`)
  const rows = () => all('tbody tr', card(rule))
  expect(rows()).toHaveLength(events.length)
  expect(textOf(card(rule))).toContain(`${events.length} event`)
  await click(button('Show in timeline', rows()[0]))
  expect(state()).toMatchObject({ view: 'timeline', event: String(events[0].event), gaps: '1' })
  expect(Number(state().end_ns) - Number(state().start_ns)).toBeLessThanOrEqual(2 * Number(events[0].dur_ns) + 1)
  await back()
  expect(rows()).toHaveLength(events.length)
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
  const before = textOf(byTest('headline'))
  await click(button(/./, card(rule)))
  await enter(button('Dismiss', card(rule)))
  expect(state().dismissed).toBe(rule)
  // The focus goes to the next one.
  expect(document.activeElement?.id).toBe(`finding-${others[0]}-title`)
  expect(shown()).toEqual(others)
  expect((await noticesOf(`&without=${rule}`)).map((notice) => notice.rule)).toEqual(others)
  // What all save is computed without it.
  expect(textOf(byTest('headline'))).not.toBe(before)
  await navigate('Overview', 'Overview')
  const card_ = one('section[aria-label=Findings]')
  expect(all('li', card_)).toHaveLength(Math.min(others.length, 4))
  expect(textOf(card_)).toContain('1 dismissed.')
  await click(button('Show in Findings', card_))
  expect(state().view).toBe('findings')
  await open({ ...RUN, view: 'findings', dismissed: rule })
  const left = () => one('[aria-label=dismissed]')
  expect(textOf(left())).toMatch(/^1 dismissed:/)
  await click(button('Show', left()))
  await enter(button('Restore', left()))
  expect(state().dismissed).toBeUndefined()
  expect(shown()).toEqual([rule, ...others])
  expect(document.activeElement?.id).toBe(`finding-${rule}-title`)
  expect(textOf(byTest('headline'))).toBe(before)
})

test('the Overview leads to each card and to all of them', async () => {
  await open({ ...RUN, view: 'overview' })
  const notices = await noticesOf()
  await click(button(/./, all('li', one('section[aria-label=Findings]'))[1]))
  expect(state()).toMatchObject({ view: 'findings', rule: notices[1].rule })
  expect(button(/./, card(notices[1].rule)).getAttribute('aria-expanded')).toBe('true')
  await open({ ...RUN, view: 'overview' })
  await click(button(`All ${notices.length} findings`))
  expect(state().view).toBe('findings')
  expect(state().rule).toBeUndefined()
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
