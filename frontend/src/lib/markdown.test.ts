import { expect, test } from 'vitest'
import type { Metric, Notice, Table, Unit } from '../api/payloads'
import { pageMarkdown } from './markdown'

const metric = (key: string, title: string, unit: Unit): Metric => ({ key, title, unit, definition: '', window: '' })

const table = (rows: Table['rows'], all = rows.length): Table => ({
  kind: 'table', name: 'kernels', title: 'Kernels', name_column: 'name', row_key: ['name'], offset: 0, limit: 200,
  sort: null, totals: {}, extremes: {}, sql: "", total_rows: all, matched_rows: all, rows,
  columns: [
    { metric: metric('calls', 'Calls', 'count'), hidden: false, share: false },
    { metric: metric('name', 'Name', 'code'), hidden: false, share: false },
    { metric: metric('dur_ns', 'Time', 'ns'), hidden: false, share: true },
    { metric: metric('stream', 'Stream', 'text'), hidden: true, share: false },
  ],
}) // biome-ignore format: one line a thing

const notice = (text: string, todo = ''): Notice => ({
  kind: 'notice', rule: 'r', severity: 'high', text, todo, measure: null, threshold: null, evidence: null, events: [],
  event_count: 0, references: [], title: '', why: '', confidence: '', saving: null, snippet: '',
  figures: [
    { metric: metric('share', 'Share', 'ratio'), value: 0.5, note: '' },
    { metric: metric('line', 'Line', 'code'), value: 'a_b.py(42)', note: '' },
  ],
}) // biome-ignore format: one line a thing

test('a page begins with its place and its answer, then come tiles, findings and tables', () => {
  const text = pageMarkdown({
    title: 'Overview',
    place: [['Run', 'resnet50'], ['Steps', '1-3']],
    payloads: [
      { kind: 'figures', name: 'headline', title: 'H', subtitle: '', style: 'headline', figures: [{ metric: metric('step_ns', 'Step time', 'ns'), value: 178_000_000, note: '' }] },
      { kind: 'notices', name: 'answer', title: '', about: 'answer', notices: [notice('Data loading takes {share}: {line}.')] },
      { kind: 'notices', name: 'findings', title: '', about: 'training', notices: [{ ...notice('Slow.', 'Use {line} in num_workers or _x_.'), title: 'Loading', saving: { low_ns: 1e6, high_ns: 2e6, shared_ns: 0, step_ns: 1e7 } }] },
      { kind: 'notices', name: 'data_quality', title: '', about: 'data', notices: [notice('Not here.')] },
      table([{ calls: 3, name: 'sgemm', dur_ns: 2_000_000, stream: '7' }], 40),
    ],
  }) // biome-ignore format: one line a thing
  expect(text.split('\n\n')).toEqual([
    '# Overview',
    'Run: `resnet50` · Steps: `1-3`',
    'Data loading takes **50.0 %**: **`a_b.py(42)`**.',
    '| Metric | Value |\n| --- | ---: |\n| Step time | 178 ms |',
    '## Findings',
    '1. **Loading** (high): Slow. Saves 1.00 to 2.00 ms per step. Fix: Use **`a_b.py(42)`** in num_workers or \\_x\\_.',
    '## Kernels',
    '| Name | Calls | Time (ms) |\n| --- | ---: | ---: |\n| sgemm | 3 | 2.00 |',
    '10 of 40 rows.\n',
  ])
})

test('names from a trace stay text in a table', () => {
  const hostile = ['<img src=x onerror=alert(1)>', 'a|b', 'a\\|b', '``x`', 'two\nlines\u2028more', '']
  const text = pageMarkdown({
    title: '@team <b> https://x.y',
    place: [['Run', '`r`']],
    payloads: [table(hostile.map((name) => ({ name, calls: 1, dur_ns: 1 })))],
  })
  const rows = text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2)
  expect(rows.map((row) => row.slice(2, row.lastIndexOf(' | 1 | 1')))).toEqual([
    '`<img src=x onerror=alert(1)>`', '`a\\|b`', '`a\\ \\|b`', '``` ``x` ```', 'two lines more', '',
  ]) // biome-ignore format: one line a thing
  expect(text).toContain('# `@team <b> https://x.y`\n')
  expect(text).toContain('Run: `` `r` ``')
})
