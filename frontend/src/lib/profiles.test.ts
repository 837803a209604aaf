import { expect, it } from 'vitest'
import type { Catalog, Profile } from '../api/payloads'
import { baselineCandidates, defaultBaseline, resolveBaseline } from './baselines'
import {
  byTime,
  isAnsweredByOthers,
  missingPart,
  offeredViews,
  ofModel,
  openedView,
  readsNote,
  requestAddress,
  resolveAddress,
  spanLabels,
  spanVersion,
  unreadCount,
  wantedAddress,
  withoutTraces,
} from './profiles'

/** `run: {worker: spans}` */
function catalog(runs: Record<string, Record<string, string[]>>): Catalog {
  return {
    kind: 'catalog',
    logdir: '/logs',
    last_scan_unix_ms: null,
    problems: [],
    perfetto_url: '',
    path_mappings: [],
    upload_limit_bytes: 0,
    first: null,
    scanned_files: 0,
    scanning: false,
    skipped: [],
    runs: Object.entries(runs).map(([name, workers]) => ({
      name,
      grouped_by: '',
      title: '',
      is_first: false,
      is_invented: false,
      workers: Object.entries(workers).map(([worker, spans]) => ({
        name: worker,
        spans: spans.map((id) => ({
          id,
          files: [],
          format: '',
          fraction: 0,
          problem: null,
          size_bytes: 1,
          model: 'trace',
          key_figures: [],
          is_empty: false,
          device: null,
          step_count: null,
          state: 'found',
          time_unix_ms: null,
          modified_unix_ms: null,
        })),
      })),
    })),
  }
}

const at = (run: string, worker: string, span: string) => ({ run, worker, span })
const RUNS = catalog({
  a: { w0: ['1'], w1: ['1'] },
  b: { w0: ['1', '2'], w1: ['1'] },
  c: { w0: ['1'], w9: ['7', '8'] },
  d: { only: ['x'] },
})

it.each([
  ['another span of the worker', at('b', 'w0', '2'), at('b', 'w0', '1')],
  ['another span after it', at('c', 'w9', '7'), at('c', 'w9', '8')],
  ['another worker of the run', at('a', 'w0', '1'), at('a', 'w1', '1')],
  ['nothing that is unrelated', at('d', 'only', 'x'), null],
])('compares with %s', (_, exp, base) => expect(defaultBaseline(RUNS, exp)).toEqual(base))

it('compares with the run before it of the same series, and never with another training', () => {
  const runs = catalog({ bert: { w0: ['1'] }, resnet_bs128: { w0: ['1'] }, resnet_bs32: { w0: ['1'] } })
  expect(defaultBaseline(runs, at('resnet_bs32', 'w0', '1'))).toEqual(at('resnet_bs128', 'w0', '1'))
  expect(defaultBaseline(runs, at('bert', 'w0', '1'))).toBeNull()
})

it('opens the newest run', () => {
  const runs = catalog({ old: { w0: ['1'] }, young: { w0: ['1'] }, unknown: { w0: ['1'] } })
  runs.runs[0].workers[0].spans[0].time_unix_ms = 5
  runs.runs[1].workers[0].spans[0].time_unix_ms = 7
  expect(resolveAddress(runs, {})).toEqual(at('young', 'w0', '1'))
  expect(byTime(runs.runs).map((run) => run.name)).toEqual(['young', 'old', 'unknown'])
})

it('opens the first profile of the catalog, or another one of its run', () => {
  const runs = { ...catalog({ old: { w0: ['1', '2'] }, young: { w0: ['1'] } }), first: at('old', 'w0', '2') }
  runs.runs[1].workers[0].spans[0].time_unix_ms = 7
  expect(resolveAddress(runs, {})).toEqual(at('old', 'w0', '2'))
  expect(resolveAddress(runs, { run: 'young' })).toEqual(at('young', 'w0', '1'))
  runs.runs[0].workers[0].spans[1].state = 'failed'
  expect(resolveAddress(runs, {})).toEqual(at('old', 'w0', '1'))
})

it('lists marked runs first and invented runs last', () => {
  const { runs } = catalog({ invented: { w0: ['1'] }, old: { w0: ['1'] }, marked: { w0: ['1'] } })
  runs[0].is_invented = true
  runs[0].workers[0].spans[0].time_unix_ms = 9
  runs[2].is_first = true
  runs[1].workers[0].spans[0].time_unix_ms = 5
  expect(byTime(runs).map((run) => run.name)).toEqual(['marked', 'old', 'invented'])
})

it('compares with another worker of the run', () => {
  const one = catalog({ a: { w0: ['1'], w1: ['1'] } })
  expect(defaultBaseline(one, at('a', 'w0', '1'))).toEqual(at('a', 'w1', '1'))
})

it('compares with profiles of the same model only', () => {
  const runs = catalog({ a: { w0: ['1'], w1: ['1'] }, b: { w0: ['1'] } })
  runs.runs[0].workers[1].spans[0].model = 'snapshot'
  expect(ofModel(runs, 'snapshot').runs.map(({ name, workers }) => [name, workers.map((one) => one.name)])).toEqual([
    ['a', ['w1']],
  ])
  expect(defaultBaseline(ofModel(runs, 'snapshot'), at('a', 'w1', '1'))).toBeNull()
  expect(resolveBaseline(ofModel(runs, 'snapshot'), { base_worker: 'w0' }, at('a', 'w1', '1'))).toBeNull()
})

it('offers baselines, each with its reason, best first', () => {
  const runs = catalog({
    h100: { bert_small: ['default'], vision: ['default'] },
    mi300: { rank0: ['default'], bert_small: ['default'] },
    v100: { worker0: ['1', '2'] },
  })
  const reasons = (exp: Parameters<typeof defaultBaseline>[1]) =>
    baselineCandidates(runs, exp).map(({ run, worker, span, reason }) => [`${run}/${worker}/${span}`, reason])
  const bert = at('h100', 'bert_small', 'default')
  expect(reasons(bert)[0]).toEqual(['mi300/bert_small/default', 'same worker in another run'])
  expect(defaultBaseline(runs, bert)).toEqual(at('mi300', 'bert_small', 'default'))
  expect(reasons(at('v100', 'worker0', '2'))[0]).toEqual(['v100/worker0/1', 'previous span of this worker'])
  // A rank number alone is no sign of the same program.
  const rank = at('mi300', 'rank0', 'default')
  runs.runs[2].workers[0].name = 'rank0'
  expect(reasons(rank)[0]).toEqual(['v100/rank0/1', 'same worker in another run'])
  expect(defaultBaseline(runs, rank)).toBeNull()
})

it('compares the two runs of a log directory that has no others', () => {
  const runs = catalog({ before: { host_17: ['1'] }, after: { host_23: ['1'], rank1: ['1'] } })
  expect(baselineCandidates(runs, at('after', 'host_23', '1'))[0]).toEqual({
    ...at('before', 'host_17', '1'),
    reason: 'the only other run',
    isAutomatic: true,
  })
})

it('chooses no baseline that cannot be compared, and says why', () => {
  const runs = catalog({ a: { rank0: ['1'], rank1: ['1'] } })
  const [one, other] = runs.runs[0].workers.map(({ spans }) => spans[0])
  const exp = at('a', 'rank0', '1')
  expect(defaultBaseline(runs, exp)).toEqual(at('a', 'rank1', '1'))
  one.size_bytes = 50 * other.size_bytes
  expect(defaultBaseline(runs, exp)).toBeNull()
  one.size_bytes = other.size_bytes
  Object.assign(one, { device: 'Ascend910B' })
  Object.assign(other, { device: '' })
  expect(defaultBaseline(runs, exp)).toBeNull()
  expect(baselineCandidates(runs, exp).map(({ reason }) => reason)).toEqual(['other rank of this run, no device work'])
  other.state = 'failed'
  expect(baselineCandidates(runs, exp)).toEqual([])
})

it('offers recordings of other programs that share the device or the step count', () => {
  const runs = catalog({ bert: { w0: ['1'] }, gpt: { x: ['1'] }, llama: { y: ['1'] } })
  const [exp, gpt, llama] = runs.runs.map(({ workers }) => workers[0].spans[0])
  for (const span of [exp, llama]) Object.assign(span, { device: 'H100', step_count: 6 })
  Object.assign(gpt, { device: 'V100', step_count: 6 })
  expect(baselineCandidates(runs, at('bert', 'w0', '1')).map(({ run, reason }) => [run, reason])).toEqual([
    ['llama', 'same device (H100), also 6 steps'],
    ['gpt', 'also 6 steps'],
  ])
})

it('has nothing to compare a single profile with', () => {
  expect(defaultBaseline(catalog({ a: { w0: ['1'] } }), at('a', 'w0', '1'))).toBeNull()
})

it.each([
  ['nothing: the default', {}, at('b', 'w0', '2')],
  ['the run: worker and span of the experiment', { base_run: 'c' }, at('c', 'w0', '1')],
  ['a run that has neither: its first', { base_run: 'd' }, at('d', 'only', 'x')],
  ['only the span', { base_span: '2' }, at('b', 'w0', '2')],
  ['the experiment itself', { base_run: 'b', base_worker: 'w0', base_span: '1' }, at('b', 'w0', '1')],
  ['a run that is not there', { base_run: 'nope' }, null],
  ['a worker that is not there', { base_run: 'c', base_worker: 'w1' }, null],
  ['a span that is not there', { base_span: '9' }, null],
])('reads a URL that names %s', (_, route, base) =>
  expect(resolveBaseline(RUNS, route, at('b', 'w0', '1'))).toEqual(base),
)

it('says which part of an address is not there, as far as it is known', () => {
  const missing = (route: Record<string, string>, all = RUNS) => missingPart(all, wantedAddress(all, route))
  expect(wantedAddress(RUNS, { worker: 'w37' })).toEqual(at('', 'w37', ''))
  expect(missing({ run: 'gone', worker: 'w0' })).toBe('run')
  expect(missing({ run: 'a', worker: 'w37', span: '1' })).toBe('worker')
  expect(missing({ run: 'b', worker: 'w0', span: '3' })).toBe('span')
  const one = catalog({ a: { w0: ['1'] } })
  expect(wantedAddress(one, { worker: 'w37' })).toEqual(at('a', 'w37', ''))
  expect(missing({ worker: 'w37' }, one)).toBe('worker')
})

it('asks the server about a worker that is not listed only where a file was merged from several', () => {
  const wanted = at('a', 'm', '1')
  expect(requestAddress(RUNS, null, wanted)).toBeNull()
  const merged = catalog({ a: { 'rank 0': ['1'], 'rank 1': ['1'] } })
  for (const { spans } of merged.runs[0].workers) spans[0].files = ['m.json']
  expect(requestAddress(merged, null, wanted)).toEqual(wanted)
  expect(requestAddress(merged, null, at('a', '', '1'))).toBeNull()
  expect(requestAddress(merged, at('a', 'rank 0', '1'), wanted)).toEqual(at('a', 'rank 0', '1'))
})

it('opens the first profile of what is named', () => {
  expect(resolveAddress(RUNS, { run: 'c', worker: 'w9' })).toEqual(at('c', 'w9', '7'))
  expect(resolveAddress(RUNS, { run: 'nope' })).toBeNull()
})

it('opens first what has something to show, where the URL names nothing', () => {
  const runs = catalog({ a: { cut: ['1'], lost: ['1'], w: ['1', '2'] }, b: { w: ['1'] } })
  const [cut, lost, good] = runs.runs[0].workers
  cut.spans[0].is_empty = true
  lost.spans[0].state = 'failed'
  expect(resolveAddress(runs, {})).toEqual(at('a', 'w', '1'))
  expect(resolveAddress(runs, { run: 'a', worker: 'cut' })).toEqual(at('a', 'cut', '1'))
  good.spans[0].is_empty = true
  expect(resolveAddress(runs, { worker: 'w' })).toEqual(at('a', 'w', '2'))
  good.spans[1].is_empty = true
  expect(resolveAddress(runs, {})).toEqual(at('a', 'cut', '1'))
})

it('opens what the URL names where the profile has it, else its own default view', () => {
  const view = (id: string) => ({ id, title: id, available: true, why: '', enable: '', group: '' })
  const profile = {
    default_view: 'numbers',
    views: [view('numbers'), view('more')],
    absent: [{ ...view('graphs'), available: false, why: 'None.' }],
  } as unknown as Profile
  expect(openedView(null, undefined)).toBe('')
  expect(openedView(null, 'kernels')).toBe('kernels')
  expect(openedView(profile, undefined)).toBe('numbers')
  expect(openedView(profile, 'more')).toBe('more')
  // What the navigation leaves out says why.
  expect(openedView(profile, 'graphs')).toBe('graphs')
  expect(openedView(profile, 'overview')).toBe('numbers')
})

it('offers no comparison of ranks where there is one', () => {
  const runs = catalog({ one: { w0: ['1'], w1: ['1'] }, two: { w0: ['1'], w1: ['1'] } })
  for (const worker of [runs.runs[0].workers[0], ...runs.runs[1].workers]) worker.spans[0].model = 'snapshot'
  const views = ['allocations', 'ranks_memory'].map((id) => ({ id }))
  const profile = { views } as unknown as Profile
  const ids = (run: string) => offeredViews(profile, runs, at(run, 'w0', '1'))?.views.map(({ id }) => id)
  expect(ids('one')).toEqual(['allocations'])
  expect(ids('two')).toEqual(['allocations', 'ranks_memory'])
  expect(offeredViews(null, runs, null)).toBeNull()
})

it('asks where workers of one run have nothing in common', () => {
  const tools = catalog({ tools: { result: ['1'], rows: ['1'], startup_trace: ['1'] } })
  expect(defaultBaseline(tools, at('tools', 'rows', '1'))).toBeNull()
})

it('sees a profile anew when it was read, or when its file is another one', () => {
  const [span] = catalog({ a: { w: ['1'] } }).runs[0].workers[0].spans
  expect(new Set([span, { ...span, state: 'ready' as const }, { ...span, size_bytes: 2 }].map(spanVersion)).size).toBe(
    3,
  )
  expect(spanVersion({ ...span, state: 'loading' })).toBe(spanVersion(span))
  expect(spanVersion(null)).toBe('')
})

it('tells spans apart by time, else by file', () => {
  const [span] = catalog({ a: { w: ['1'] } }).runs[0].workers[0].spans
  const named = (...spans: [string, number | null, string][]) =>
    spanLabels(spans.map(([id, time_unix_ms, file]) => ({ ...span, id, time_unix_ms, files: [`/logs/a/${file}`] })))
  const noon = Date.UTC(2026, 4, 1, 12)
  const [one, two] = named(['1', noon, 'w.1.json'], ['2', noon + 1000, 'w.2.json'])
  expect([one, two].map((label) => label.replace(/\d\d:/, 'HH:'))).toEqual(['1 · HH:00:00', '2 · HH:00:01'])
  expect(named(['default', null, 'w.pt.trace.json'])).toEqual(['default'])
  expect(named(['default', null, 'w.pt.trace.json'], ['default-2', null, 'w.pftrace.gz'])).toEqual([
    'default · w.pt.trace.json',
    'default-2 · w.pftrace.gz',
  ])
  expect(named(['1', noon, 'w.1.json'], ['2', noon, 'w.1.pftrace']).map((label) => label.split(' · ')[2])).toEqual([
    'w.1.json',
    'w.1.pftrace',
  ])
})

it('knows the ranks of which only the summary is here', () => {
  const found = catalog({ job: { rank0: ['1'], rank1: ['1', '2'] } })
  const [rank0, rank1] = found.runs[0].workers
  rank0.spans[0].files = ['job/rank0.json']
  rank1.spans[0].files = ['job/rank1.json.ttsummary']
  rank1.spans[1].files = ['job/rank1.2.json', 'job/rank1.2.json.ttsummary']
  expect([...withoutTraces(found, { run: 'job', span: '1' })]).toEqual(['rank1'])
  expect([...withoutTraces(found, { run: 'job', span: '2' })]).toEqual([])
  expect([...withoutTraces(found, { run: 'another', span: '1' })]).toEqual([])
})

it('a view about all workers has an answer from a failed one as long as another one may be read', () => {
  const broken = { ...at('b', 'w1', '1'), model: 'trace', state: 'failed' } as unknown as Profile
  expect(isAnsweredByOthers('distributed', RUNS, broken)).toBe(true)
  expect(isAnsweredByOthers('overview', RUNS, broken)).toBe(false)
  const failed = structuredClone(RUNS)
  for (const worker of failed.runs[1].workers) for (const span of worker.spans) span.state = 'failed'
  expect(isAnsweredByOthers('distributed', failed, broken)).toBe(false)
  expect(isAnsweredByOthers('distributed', RUNS, { ...broken, model: 'snapshot' })).toBe(false)
})

it('counts the traces of a run that are here and that nobody has read', () => {
  const all = catalog({ a: { w0: ['1'], w1: ['1', '2'], w2: ['1'], w3: ['1'] } })
  const [, , read, told] = all.runs[0].workers.map(({ spans }) => spans[0])
  read.state = 'ready'
  told.files = ['w3.json.gz.ttsummary']
  expect(unreadCount(all, at('a', 'w0', '1'))).toBe(2)
  expect(unreadCount(all, at('b', 'w0', '1'))).toBe(0)
})

it('what a question costs stands behind its label; of what is known nothing does', () => {
  expect([0, 1, 1023].map(readsNote)).toEqual(['', ' (reads up to 1 trace)', ' (reads up to 1,023 traces)'])
})

it('finds a worker by the name of its file, as links have it from before its rank was known', () => {
  const renamed = catalog({ a: { rank0: ['1'], rank1: ['1'] } })
  renamed.runs[0].workers[1].spans[0].files = ['a/worker1.17.pt.trace.json.gz']
  const found = at('a', 'rank1', '1')
  expect(resolveAddress(renamed, { run: 'a', worker: 'worker1', span: '1' })).toEqual(found)
  const route = { base_run: 'a', base_worker: 'worker1', base_span: '1' }
  expect(resolveBaseline(renamed, route, at('a', 'rank0', '1'))).toEqual(found)
  expect(resolveAddress(renamed, { run: 'a', worker: 'worker' })).toBeNull()
})
