// Made-up payloads in the shapes of docs/http.md, for the development server alone.
let seed = 7
const random = () => {
  seed = (seed * 1103515245 + 12345) & 0x7fffffff
  return seed / 0x7fffffff
}
const metric = (key, title, unit, definition = `${title}, as the trace records it.`, window = 'the whole trace') => ({
  key,
  title,
  unit,
  definition,
  window,
})
const column = (key, title, unit, more = {}) => ({
  metric: metric(key, title, unit),
  hidden: false,
  share: false,
  ...more,
})
const figure = (key, title, unit, value, note = '') => ({ metric: metric(key, title, unit), value, note })
const coverage = (steps) => ({
  window_ns: 996_500_000,
  fraction_read: 1,
  complete: true,
  steps: steps ? steps.split(',') : null,
})

export const catalog = () => ({
  kind: 'catalog',
  logdir: '/data/logs',
  scanning: false,
  scanned_files: 41,
  last_scan_unix_ms: Date.now(),
  problem: null,
  skipped: [{ path: 'old/trace.txt', reason: 'The name is not one of a trace.' }],
  runs: [
    {
      name: 'resnet50_num_workers_0',
      workers: [
        {
          name: 'worker0',
          spans: [1, 2, 3].map((i) => ({
            id: String(i),
            time_unix_ms: 1795200788569 + i * 61000,
            files: [`worker0.${i}.pt.trace.json.gz`],
            size_bytes: 9_000_000,
            state: i === 1 ? 'ready' : 'found',
            fraction: i === 1 ? 1 : 0,
            problem: null,
          })),
        },
      ],
    },
    {
      name: 'slow_to_read',
      workers: [
        {
          name: 'rank0',
          spans: [
            {
              id: '1',
              time_unix_ms: null,
              files: ['a.json'],
              size_bytes: 1,
              state: 'loading',
              fraction: 0.4,
              problem: null,
            },
          ],
        },
      ],
    },
    {
      name: 'broken_run',
      workers: [
        {
          name: 'rank0',
          spans: [
            {
              id: '1',
              time_unix_ms: null,
              files: ['b.json'],
              size_bytes: 1,
              state: 'failed',
              fraction: 0,
              problem: problem,
            },
          ],
        },
      ],
    },
  ],
})
const problem = {
  what: 'The file ends in the middle of an event.',
  where: 'broken_run/b.json, byte 1,204,882',
  do: 'Copy the file again: it was probably cut off while it was written.',
}

export const profileOf = (run, state, fraction) => ({
  kind: 'profile',
  run,
  worker: 'worker0',
  span: '1',
  state,
  fraction,
  events_read: Math.round(fraction * 1_200_000),
  problem: state === 'failed' ? problem : null,
  steps:
    state === 'ready'
      ? [5, 6, 7, 8, 9, 10].map((n, i) => ({
          label: String(n),
          start_ns: i * 166_000_000,
          end_ns: (i + 1) * 166_000_000,
        }))
      : [],
  data_notices: 2,
  read:
    state === 'ready'
      ? {
          format: 'kineto',
          file_bytes: 9_100_000,
          text_bytes: 98_000_000,
          events_seen: 212_331,
          events_kept: 212_002,
          events_repaired: 12,
          events_dropped: 3,
          events_quarantined: 1,
          events_unknown: 4,
          events_other: 309,
          complete: true,
          issues: [
            {
              code: 'negative_dur',
              outcome: 'repaired',
              text: 'Events with a negative duration were set to 0.',
              count: 12,
              first_offset: 120_331,
              examples: ['{"name": "aten::mm", "dur": -1}'],
            },
          ],
        }
      : null,
  views:
    state !== 'ready'
      ? []
      : [
          ...[
            ['overview', 'Overview'],
            ['timeline', 'Timeline'],
            ['operators', 'Operators'],
            ['kernels', 'Kernels'],
            ['modules', 'Modules'],
          ].map(([id, title]) => ({ id, title, available: true, why: '', enable: '' })),
          {
            id: 'memory',
            title: 'Memory',
            available: false,
            why: 'The trace holds no memory events.',
            enable: 'profile_memory=True',
          },
          {
            id: 'distributed',
            title: 'Distributed',
            available: false,
            why: 'The run has one worker.',
            enable: 'Record every rank.',
          },
          { id: 'diff', title: 'Diff', available: true, why: '', enable: '' },
        ],
})

const PARTS = [
  ['kernel', 'Kernel', 98.59],
  ['memcpy', 'Memcpy', 1.92],
  ['memset', 'Memset', 0.09],
  ['runtime', 'Runtime', 2.91],
  ['dataloader', 'Data loader', 59.26],
  ['cpu', 'CPU', 13.67],
  ['other', 'Other', 1.16],
]

export function overview(steps) {
  const labels = ['5', '6', '7', '8', '9', '10']
  return {
    kind: 'view',
    id: 'overview',
    title: 'Overview',
    coverage: coverage(steps),
    payloads: {
      headline: {
        kind: 'figures',
        name: 'headline',
        title: 'Headline',
        subtitle: '',
        style: 'headline',
        figures: [
          figure('step_time', 'Step time', 'ns', 177_590_000, 'p95 186.5 ms'),
          figure('gpu_busy', 'GPU busy', 'ratio', 0.555),
          figure('dataloader_share', 'Waiting for input', 'ratio', 0.334),
          figure('comm_exposed', 'Communication exposed', 'ratio', 0),
        ],
      },
      steps: {
        kind: 'series',
        name: 'steps',
        title: 'Steps',
        subtitle: 'host start to last device event',
        style: 'stacked_bars',
        x_metric: metric('step', 'Step', 'text'),
        x: labels,
        lines: PARTS.map(([c, t, v]) => ({
          metric: metric(c, t, 'ns'),
          category: c,
          values: labels.map((_, i) => Math.round(v * 1e6 * (1 + (c === 'dataloader' ? 0.15 * Math.cos(i * 2) : 0)))),
        })),
      },
      average_step: {
        kind: 'breakdown',
        name: 'average_step',
        title: 'Average step',
        subtitle: '',
        unit: 'ns',
        style: 'table',
        total: PARTS.reduce((a, p) => a + Math.round(p[2] * 1e6), 0),
        parts: PARTS.map(([c, t, v]) => ({
          metric: metric(c, t, 'ns'),
          category: c,
          value: Math.round(v * 1e6),
          link: c === 'kernel' ? { view: 'kernels', params: {}, text: 'Kernels' } : null,
        })),
      },
      recommendations: {
        kind: 'notices',
        name: 'recommendations',
        title: 'Recommendations',
        about: 'training',
        notices: [
          {
            rule: 'dataloader',
            severity: 'high',
            text: 'Loading input data takes {time} of each {step} step.',
            todo: 'Give the DataLoader worker processes (num_workers) and pinned memory, so that the next batch is ready when the step ends.',
            measure: 'dataloader_share',
            threshold: 0.05,
            figures: [
              figure('time', 'Time', 'ns', 59_260_000),
              figure('step', 'Step', 'ns', 177_590_000),
              figure('dataloader_share', 'Share of the step', 'ratio', 0.334),
            ],
            evidence: { view: 'timeline', params: { start_ns: '0', end_ns: '166000000' }, text: 'Show in timeline' },
            references: [{ text: 'PyTorch: data loading', url: 'https://pytorch.org/docs/stable/data.html' }],
          },
          {
            rule: 'tensor_cores',
            severity: 'medium',
            text: '{share} of the kernel time comes from operators that could use Tensor Cores, and none does.',
            todo: 'Automatic mixed precision runs them in 16 bit on this device.',
            measure: 'share',
            threshold: 0.2,
            figures: [figure('share', 'Share', 'ratio', 0.676)],
            evidence: { view: 'operators', params: { sort: 'device_self' }, text: 'Show operators' },
            references: [{ text: 'PyTorch: AMP', url: 'https://pytorch.org/docs/stable/amp.html' }],
          },
        ],
      },
      device_time_0: {
        kind: 'breakdown',
        name: 'device_time_0',
        title: 'Device time',
        subtitle: 'device 0, whole trace, all streams',
        unit: 'ns',
        style: 'bar',
        total: 996_500_000,
        parts: [
          ['compute', 'Compute', 591_500_000],
          ['communication', 'Exposed communication', 0],
          ['memcpy', 'Exposed copy', 12_100_000],
          ['idle', 'Idle', 392_900_000],
        ].map(([c, t, v]) => ({ metric: metric(c, t, 'ns'), category: c, value: v, link: null })),
      },
      device_0: {
        kind: 'figures',
        name: 'device_0',
        title: 'Device 0',
        subtitle: 'Tesla V100-DGXS-32GB',
        style: 'list',
        figures: [
          figure('memory', 'Memory', 'bytes', 34038939648),
          figure('cc', 'Compute capability', 'text', '7.0'),
          figure('util', 'Utilization', 'ratio', 0.555),
          figure('sm', 'Est. SM efficiency', 'ratio', 0.547),
          figure('occ', 'Est. achieved occupancy', 'ratio', 0.491),
          figure('tc', 'Kernel time on Tensor Cores', 'ratio', 0),
        ],
      },
      configuration: {
        kind: 'figures',
        name: 'configuration',
        title: 'Configuration',
        subtitle: '',
        style: 'list',
        figures: [
          figure('workers', 'Workers', 'count', 1),
          figure('devtype', 'Device type', 'text', 'GPU'),
          figure('torch', 'PyTorch', 'text', '2.13.0'),
          figure('events', 'Events', 'count', 212_331),
        ],
      },
      data_quality: {
        kind: 'notices',
        name: 'data_quality',
        title: 'Data quality',
        about: 'data',
        notices: [
          {
            rule: 'unlaunched',
            severity: 'low',
            text: '{count} kernels have no launch call in the trace.',
            todo: 'They count on the device, not for an operator.',
            measure: 'count',
            threshold: null,
            figures: [figure('count', 'Kernels', 'count', 12)],
            evidence: null,
            references: [],
          },
        ],
      },
    },
  }
}

const OPS = [
  'conv2d',
  'convolution_backward',
  'cudnn_convolution',
  'batch_norm',
  'native_batch_norm',
  'relu_',
  'add_',
  'mm',
  'addmm',
  'max_pool2d',
  'to',
  'copy_',
  'empty',
  'linear',
  'cross_entropy_loss',
  'log_softmax',
  'zero_',
  'mul_',
  'sqrt',
  'div_',
]
const opRows = (() =>
  Array.from({ length: 345 }, (_, i) => {
    const self = Math.round((120e6 / (i + 1) ** 1.3) * (0.7 + random() * 0.6))
    return {
      name:
        i < OPS.length
          ? `aten::${OPS[i]}`
          : `autograd::engine::evaluate_function: SomeVeryLongBackwardNodeName${i}Backward0`,
      calls: Math.ceil(random() * 600),
      device_self: i % 3 === 2 ? 0 : self,
      device_total: self * 2,
      host_self: Math.round(self * 0.4),
      host_total: self,
      tc_eligible: i % 4 === 0,
      tc_share: i % 5 ? null : random(),
      stacks: 3,
    }
  }))()
const opColumns = [
  column('name', 'Operator', 'code'),
  column('calls', 'Calls', 'count'),
  column('device_self', 'Device self', 'ns', { share: true }),
  column('device_total', 'Device total', 'ns'),
  column('host_self', 'Host self', 'ns', { share: true }),
  column('host_total', 'Host total', 'ns'),
  column('tc_eligible', 'Tensor Core eligible', 'bool'),
  column('tc_share', 'On Tensor Cores', 'ratio', { hidden: true }),
  column('stacks', 'Stacks', 'count'),
]
const kernelNames = [
  'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>, at::detail::Array<char*, 3>)',
  'sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw',
  'void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(cudnnTensorStruct, float const*)',
  'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)',
  'void at::native::(anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>(float*, float const*, int)',
  'volta_sgemm_128x64_nt',
  'void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float, float, float>, unsigned int, float, 4> >(at::native::ReduceOp<float>)',
]
const kernelRows = Array.from({ length: 60 }, (_, i) => ({
  name: i < kernelNames.length ? kernelNames[i] : `volta_scudnn_128x${i}_relu_interior_nn_v1`,
  matrix: i % 4 === 0,
  calls: Math.ceil(random() * 300),
  total: Math.round(90e6 / (i + 1)),
  mean: Math.round(90e3 / (i + 1)),
  max: Math.round(190e3 / (i + 1)),
  min: Math.round(30e3 / (i + 1)),
  blocks_per_sm: random() * 20,
  occupancy: random(),
}))
const kernelColumns = [
  column('name', 'Kernel', 'code'),
  column('matrix', 'Tensor Cores', 'bool'),
  column('calls', 'Calls', 'count'),
  column('total', 'Total', 'ns', { share: true }),
  column('mean', 'Mean', 'ns'),
  column('max', 'Max', 'ns'),
  column('min', 'Min', 'ns'),
  column('blocks_per_sm', 'Mean blocks per SM', 'number'),
  column('occupancy', 'Mean est. occupancy', 'ratio'),
]
const shapes = opRows.flatMap((row) =>
  [0, 1].map((k) => ({ ...row, input_shape: `[[32, ${64 << k}, 56, 56], [64, 64, 3, 3], []]` })),
)
const stackRows = (name) =>
  [1, 2, 3].map((k) => ({
    name,
    stack: `/opt/conda/lib/python3.11/site-packages/torchvision/models/resnet.py(${26 + k}): _forward_impl;/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py(1102): _call_impl;train.py(${40 + k}): train;<built-in method run of type object>;train.py(88): <module>`,
    calls: k * 7,
    device_self: 1e6 * k,
    host_self: 2e5 * k,
  }))

function page(name, title, columns, rows, rowKey, query, sort) {
  const search = (query.get('search') ?? '').toLowerCase()
  let found = rows.filter((row) =>
    query.getAll('where').every((w) => String(row[w.slice(0, w.indexOf(':'))]) === w.slice(w.indexOf(':') + 1)),
  )
  if (search) {
    const regex = /^\/(.*)\/$/.exec(query.get('search'))
    found = found.filter((row) =>
      regex ? new RegExp(regex[1]).test(row.name) : row.name.toLowerCase().includes(search),
    )
  }
  const key = query.get('sort') || sort
  const desc = query.get('desc') !== '0'
  found = [...found].sort((a, b) =>
    a[key] === b[key] ? 0 : a[key] === null ? 1 : b[key] === null ? -1 : (a[key] < b[key] ? -1 : 1) * (desc ? -1 : 1),
  )
  const offset = Number(query.get('offset') ?? 0)
  const limit = Number(query.get('limit') ?? 100)
  const totals = Object.fromEntries(
    columns
      .filter((c) => c.share)
      .map((c) => [c.metric.key, rows.reduce((sum, row) => sum + (row[c.metric.key] ?? 0), 0)]),
  )
  return {
    kind: 'table',
    name,
    title,
    columns,
    rows: found.slice(offset, offset + limit),
    row_key: rowKey,
    name_column: 'name',
    total_rows: rows.length,
    matched_rows: found.length,
    offset,
    limit,
    sort: { key, descending: desc },
    totals,
  }
}

const TABLES = {
  operators: (q) => page('operators', 'Operators', opColumns, opRows, ['name'], q, 'device_self'),
  operators_by_shape: (q) =>
    page(
      'operators_by_shape',
      'Operators by input shape',
      [opColumns[0], column('input_shape', 'Input shape', 'code'), ...opColumns.slice(1)],
      shapes,
      ['name', 'input_shape'],
      q,
      'device_self',
    ),
  stacks: (q) =>
    page(
      'stacks',
      'Call stacks',
      [
        column('name', 'Operator', 'code'),
        column('stack', 'Call stack', 'code'),
        column('calls', 'Calls', 'count'),
        column('device_self', 'Device self', 'ns', { share: true }),
        column('host_self', 'Host self', 'ns'),
      ],
      stackRows((q.get('where') ?? 'name:x').slice(5)),
      ['name', 'stack'],
      q,
      'calls',
    ),
  kernels: (q) => page('kernels', 'Kernels', kernelColumns, kernelRows, ['name'], q, 'total'),
  kernels_by_launch: (q) =>
    page(
      'kernels_by_launch',
      'Kernels by launch',
      [
        kernelColumns[0],
        column('operator', 'Operator', 'code'),
        column('grid', 'Grid', 'code'),
        column('block', 'Block', 'code'),
        ...kernelColumns.slice(2),
      ],
      kernelRows.map((r) => ({ ...r, operator: 'aten::conv2d', grid: '[128, 1, 1]', block: '[256, 1, 1]' })),
      ['name', 'operator', 'grid', 'block'],
      q,
      'total',
    ),
  copies: (q) =>
    page(
      'copies',
      'Copies',
      [
        column('name', 'Copy', 'code'),
        column('calls', 'Calls', 'count'),
        column('total', 'Total', 'ns', { share: true }),
        column('bytes', 'Bytes', 'bytes'),
        column('bandwidth', 'Bandwidth', 'bytes_per_second'),
      ],
      [
        { name: 'Memcpy HtoD (Pinned -> Device)', calls: 12, total: 11e6, bytes: 2e9, bandwidth: 1.2e10 },
        { name: 'Memset (Device)', calls: 40, total: 9e4, bytes: 1e6, bandwidth: 2e11 },
      ],
      ['name'],
      q,
      'total',
    ),
  instances: (q) =>
    page(
      'instances',
      'Instances',
      [
        column('name', 'Name', 'code'),
        column('event', 'Event', 'count', { hidden: true }),
        column('start', 'Start', 'ns'),
        column('duration', 'Duration', 'ns'),
      ],
      Array.from({ length: 240 }, (_, i) => ({
        name: 'aten::conv2d',
        event: i,
        start: i * 4e6,
        duration: Math.round(2e5 + 1e5 * Math.sin(i)),
      })),
      ['event'],
      q,
      'duration',
    ),
}
export const tableOf = (_view, name, q) =>
  TABLES[name]
    ? [200, TABLES[name](q)]
    : [404, { error: { what: `No table ${name}`, where: name, do: 'Choose another.' } }]
const none = new URLSearchParams()
const donut = (name, title, rows, key, subtitle = '') => {
  const top = [...rows].sort((a, b) => b[key] - a[key])
  const rest = top.slice(10).reduce((s, r) => s + r[key], 0)
  return {
    kind: 'breakdown',
    name,
    title,
    subtitle,
    unit: 'ns',
    style: 'donut',
    total: top.reduce((s, r) => s + r[key], 0),
    parts: [
      ...top.slice(0, 10).map((r, i) => ({
        metric: metric(r.name, r.name, 'ns'),
        category: `slice${i}`,
        value: r[key],
        link: { view: 'operators', params: { where: `name:${r.name}` }, text: r.name },
      })),
      { metric: metric('rest', `${top.length - 10} more`, 'ns'), category: 'rest', value: rest, link: null },
    ],
  }
}
export const operators = () => ({
  kind: 'view',
  id: 'operators',
  title: 'Operators',
  coverage: coverage(null),
  payloads: {
    device_self: donut('device_self', 'Device self time', opRows, 'device_self'),
    device_total: donut('device_total', 'Device total time', opRows, 'device_total'),
    host_self: donut('host_self', 'Host self time', opRows, 'host_self'),
    host_total: donut('host_total', 'Host total time', opRows, 'host_total'),
    operators: TABLES.operators(none),
  },
})
export const kernels = () => ({
  kind: 'view',
  id: 'kernels',
  title: 'Kernels',
  coverage: coverage(null),
  payloads: {
    kernels_total: donut('kernels_total', 'Kernel time', kernelRows, 'total'),
    matrix_unit: {
      kind: 'breakdown',
      name: 'matrix_unit',
      title: 'Tensor Cores',
      subtitle: 'share of kernel time',
      unit: 'ns',
      style: 'donut',
      total: 100e6,
      parts: [
        { metric: metric('matrix', 'Used', 'ns'), category: 'matrix', value: 32e6, link: null },
        { metric: metric('no_matrix', 'Not used', 'ns'), category: 'no_matrix', value: 68e6, link: null },
      ],
    },
    kernels: TABLES.kernels(none),
  },
})

export function modules() {
  const rows = []
  const parent = []
  const add = (name, up, total, calls) => {
    rows.push({
      name,
      calls,
      operators: Math.ceil(random() * 20),
      host_total: total,
      host_self: Math.round(total * 0.2),
      device_total: Math.round(total * 1.4),
      device_self: Math.round(total * 0.3),
    })
    parent.push(up)
    return rows.length - 1
  }
  const root = add('ResNet_0', -1, 400e6, 6)
  add('Conv2d_0', root, 12e6, 6)
  add('BatchNorm2d_0', root, 8e6, 6)
  add('ReLU_0', root, 3e6, 6)
  for (let l = 0; l < 4; l++) {
    const seq = add(`Sequential_${l}`, root, 80e6, 6)
    for (let b = 0; b < 4; b++) {
      const block = add(`Bottleneck_${l * 4 + b}`, seq, 18e6, 6)
      for (let c = 0; c < 3; c++) {
        add(`Conv2d_${l * 20 + b * 3 + c}`, block, 4e6 * random() + 5e5, 6)
        add(`BatchNorm2d_${l * 20 + b * 3 + c}`, block, 1e6 * random(), 6)
      }
      add('ReLU_1', block, 7e5, 6)
    }
  }
  add('Linear_0', root, 6e6, 6)
  add('CrossEntropyLoss_0', -1, 6e6, 6)
  const columns = [
    column('name', 'Module', 'code'),
    column('calls', 'Calls', 'count'),
    column('operators', 'Operators', 'count'),
    column('host_total', 'Host total', 'ns'),
    column('host_self', 'Host self', 'ns'),
    column('device_total', 'Device total', 'ns'),
    column('device_self', 'Device self', 'ns'),
  ]
  return {
    kind: 'view',
    id: 'modules',
    title: 'Modules',
    coverage: coverage(null),
    payloads: {
      modules: {
        kind: 'tree',
        name: 'modules',
        title: 'Modules',
        columns,
        parent,
        rows,
        label_column: 'name',
        value_columns: ['device_total', 'host_total'],
        total_nodes: rows.length,
      },
      totals: page('modules', 'Totals', columns, rows, ['name'], none, 'device_total'),
    },
  }
}

const EVENTS = (() => {
  const out = []
  const names = ['ProfilerStep#5', ...OPS.map((o) => `aten::${o}`), 'cudaLaunchKernel', ...kernelNames]
  const push = (track, row, start, dur, name, category) =>
    out.push({ track, row, start: Math.round(start), dur: Math.round(dur), name, category })
  for (let s = 0; s < 6; s++) push(0, 0, s * 166e6, 165e6, 0, 'annotation')
  for (let i = 0; i < 9000; i++)
    if (i % 7)
      push(
        1,
        0,
        i * 1e5 + random() * 2e4,
        3e4 + random() * 5e4,
        22 + (i % 7),
        i % 31 === 0 ? 'memcpy' : i % 53 === 0 ? 'communication' : 'kernel',
      )
  for (let i = 0; i < 2000; i++) {
    const at = i * 5e5
    push(2, 0, at, 4.2e5, 1 + (i % 20), i % 9 === 0 ? 'dataloader' : 'cpu')
    push(2, 1, at + 2e4, 2e5, 1 + ((i + 3) % 20), 'cpu')
    push(2, 2, at + 4e4, 1e5, 1 + ((i + 5) % 20), 'cpu')
    push(2, 3, at + 5e4, 4e4, 21, 'runtime')
    push(2, 1, at + 2.6e5, 1e5, 1 + ((i + 8) % 20), 'cpu')
  }
  for (let d = 0; d < 8; d++)
    for (let i = 0; i < 3; i++) push(3, d, i * 330e6 + d * 3e6, 320e6 - d * 6e6, 1 + d, 'python')
  out.sort((a, b) => a.track - b.track || a.row - b.row || a.start - b.start)
  out.forEach((e, i) => {
    e.event = i
  })
  return { out, names }
})()
export function makeTimeline(query) {
  const start = Number(query.get('start_ns') ?? 0)
  const end = Number(query.get('end_ns') ?? 166e6)
  const width = Number(query.get('width') ?? 1600)
  const resolution = Math.max(1, Math.round((end - start) / width))
  const categories = []
  const cols = { track: [], row: [], start: [], dur: [], name: [], category: [], event: [], count: [], busy_ns: [] }
  let total = 0
  let last = null
  const flush = () => {
    if (!last) return
    for (const key of Object.keys(cols)) cols[key].push(last[key])
    last = null
  }
  for (const e of EVENTS.out) {
    if (e.start + e.dur <= start || e.start >= end) continue
    total++
    let c = categories.indexOf(e.category)
    if (c < 0) c = categories.push(e.category) - 1
    if (
      last &&
      last.track === e.track &&
      last.row === e.row &&
      e.dur < resolution &&
      last.small &&
      e.start + e.dur - last.start < 2 * resolution
    ) {
      last.count++
      last.busy_ns += e.dur
      last.dur = e.start + e.dur - last.start
      last.event = -1
      continue
    }
    flush()
    last = {
      track: e.track,
      row: e.row,
      start: e.start,
      dur: e.dur,
      name: e.name,
      category: c,
      event: e.event,
      count: 1,
      busy_ns: e.dur,
      small: e.dur < resolution,
    }
  }
  flush()
  return {
    kind: 'view',
    id: 'timeline',
    title: 'Timeline',
    coverage: coverage(null),
    payloads: {
      timeline: {
        kind: 'timeline',
        start_ns: start,
        end_ns: end,
        window_start_ns: 0,
        window_end_ns: 996_500_000,
        resolution_ns: resolution,
        total_events: total,
        names: EVENTS.names,
        categories,
        tracks: [
          { title: 'Steps', subtitle: '', is_device: false, rows: 1 },
          { title: 'GPU 0 · stream 7', subtitle: 'Tesla V100-DGXS-32GB', is_device: true, rows: 1 },
          { title: 'Main thread', subtitle: 'operators, runtime', is_device: false, rows: 4 },
          { title: 'Main thread', subtitle: 'Python', is_device: false, rows: 8 },
        ],
        ...cols,
      },
    },
  }
}
export function events(query) {
  const row = query.get('event')
  if (row !== null) {
    const e = EVENTS.out[Number(row)]
    return {
      kind: 'view',
      id: 'events',
      title: 'Events',
      coverage: coverage(null),
      payloads: {
        event: {
          kind: 'figures',
          name: 'event',
          title: EVENTS.names[e.name],
          subtitle: `${e.category} · GPU 0 · stream 7`,
          style: 'list',
          figures: [
            figure('start', 'Start', 'ns', e.start),
            figure('duration', 'Duration', 'ns', e.dur),
            figure('grid', 'Grid', 'code', '[2, 4, 12]'),
            figure('block', 'Block', 'code', '[128, 1, 1]'),
            figure('regs', 'Registers per thread', 'count', 255),
            figure('occ', 'Est. occupancy', 'ratio', 0.05),
          ],
        },
        launch: {
          kind: 'figures',
          name: 'launch',
          title: 'Launch',
          subtitle: '',
          style: 'list',
          figures: [figure('call', 'Call', 'code', 'cudaLaunchKernel'), figure('delay', 'Launch to start', 'ns', 1604)],
        },
        operator: {
          kind: 'figures',
          name: 'operator',
          title: 'Operator',
          subtitle: '',
          style: 'list',
          figures: [
            figure('op', 'Operator', 'code', 'aten::addmm'),
            figure('module', 'Module', 'code', 'ViTLayer_3 › Linear_21'),
          ],
        },
        stack: {
          kind: 'figures',
          name: 'stack',
          title: 'Call stack',
          subtitle: '',
          style: 'list',
          figures: [figure('stack', 'Call stack', 'code', stackRows('x')[0].stack)],
        },
      },
    }
  }
  const bins = Array.from({ length: 20 }, (_, i) => 200_000 + i * 20_000)
  return {
    kind: 'view',
    id: 'events',
    title: 'Events',
    coverage: coverage(null),
    payloads: {
      distribution: {
        kind: 'series',
        name: 'distribution',
        title: 'Distribution',
        subtitle: 'of the duration',
        style: 'histogram',
        x_metric: metric('duration', 'Duration', 'ns'),
        x: bins,
        lines: [
          {
            metric: metric('count', 'Events', 'count'),
            category: 'kernel',
            values: bins.map((_, i) => Math.round(60 * Math.exp(-((i - 6) ** 2) / 12))),
          },
        ],
      },
      summary: {
        kind: 'figures',
        name: 'summary',
        title: 'Summary',
        subtitle: '',
        style: 'list',
        figures: [
          figure('calls', 'Calls', 'count', 240),
          figure('total', 'Total', 'ns', 48e6),
          figure('p50', 'p50', 'ns', 220e3),
          figure('p99', 'p99', 'ns', 410e3),
          figure('min', 'Min', 'ns', 110e3),
          figure('max', 'Max', 'ns', 490e3),
        ],
      },
      instances: TABLES.instances(none),
    },
  }
}
