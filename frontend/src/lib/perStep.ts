// Sums over the selected steps, shown per step.
import type { Figure, Metric, Table, Tree, View } from '../api/payloads'

/** How the window of a sum begins: tb_plugin/analysis/metrics.py SUM. */
const SUM = 'sum over the selected steps'
const MEAN = 'mean per step over the selected steps'

/** Views whose sums follow the switch. */
export const PER_STEP_VIEWS: ReadonlySet<string> = new Set([
  'operators',
  'kernels',
  'backward',
  'modules',
  'roofline',
  'phases',
  'stacks',
  'idle',
  'launches',
  'critical_path',
])

type Rows = Pick<Table, 'columns' | 'rows'>
type Payload = View['payloads'][string]

const isSum = (metric: Metric) => metric.window.startsWith(SUM)

/** Whether the value of a metric was divided. */
export const isPerStep = (metric: Metric) => metric.window.startsWith(MEAN)

const described = (metric: Metric): Metric =>
  isSum(metric) ? { ...metric, window: metric.window.replace(SUM, MEAN) } : metric

const figurePerStep = (figure: Figure, steps: number): Figure =>
  isSum(figure.metric) && typeof figure.value === 'number'
    ? { ...figure, metric: described(figure.metric), value: figure.value / steps }
    : figure

function rowsPerStep({ columns, rows }: Rows, steps: number): Rows {
  const keys = columns.flatMap(({ metric }) => (isSum(metric) ? [metric.key] : []))
  return {
    columns: columns.map((column) => ({ ...column, metric: described(column.metric) })),
    rows: rows.map((row) => divided(row, keys, steps)),
  }
}

function divided<Row extends Readonly<Record<string, unknown>>>(row: Row, keys: readonly string[], steps: number): Row {
  const changed = keys.flatMap((key) => (typeof row[key] === 'number' ? [[key, (row[key] as number) / steps]] : []))
  return { ...row, ...(Object.fromEntries(changed) as Partial<Row>) }
}

export function tablePerStep(table: Table, steps: number): Table {
  const sums = table.columns.flatMap(({ metric }) => (isSum(metric) ? [metric.key] : []))
  const extremes = Object.entries(table.extremes).map(([key, ends]) => [
    key,
    sums.includes(key) ? ends.map((end) => end / steps) : ends,
  ])
  return {
    ...table,
    ...rowsPerStep(table, steps),
    totals: divided(table.totals, sums, steps),
    extremes: Object.fromEntries(extremes) as Table['extremes'],
  }
}

const treePerStep = (tree: Tree, steps: number): Tree => ({ ...tree, ...rowsPerStep(tree, steps) })

function payloadPerStep(payload: Payload, steps: number): Payload {
  if (payload.kind === 'table') return tablePerStep(payload, steps)
  if (payload.kind === 'tree') return treePerStep(payload, steps)
  if (payload.kind === 'figures')
    return { ...payload, figures: payload.figures.map((figure) => figurePerStep(figure, steps)) }
  if (payload.kind === 'notices') {
    const notices = payload.notices.map((notice) => ({
      ...notice,
      text: notice.text.replaceAll('{per_step}', ' per step'),
      figures: notice.figures.map((figure) => figurePerStep(figure, steps)),
    }))
    return { ...payload, notices }
  }
  if (payload.kind === 'breakdown' && payload.parts.length > 0 && payload.parts.every(({ metric }) => isSum(metric))) {
    const parts = payload.parts.map((part) => ({
      ...part,
      metric: described(part.metric),
      value: part.value / steps,
    }))
    return { ...payload, parts, total: payload.total / steps, start: payload.start / steps }
  }
  return payload
}

export const viewPerStep = (view: View, steps: number): View => ({
  ...view,
  payloads: Object.fromEntries(
    Object.entries(view.payloads).map(([name, payload]) => [name, payloadPerStep(payload, steps)]),
  ),
})
