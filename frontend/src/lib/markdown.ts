// The answers of a page as Markdown. Texts from a trace stay text: they are escaped or code.
import type {
  Breakdown,
  Figure,
  Figures,
  Metric,
  Notice,
  Payload,
  Scalar,
  Series,
  Table,
  Tree,
  Unit,
} from '../api/payloads'
import {
  columnScale,
  counted,
  familyScales,
  format,
  formatNumber,
  formatRange,
  isChange,
  isNumeric,
  signed,
} from './format'
import { shortenMiddle, shortKernel } from './names'
import { templatePieces } from './noticeTemplate'

/** Limits for readable reports: rows, columns, bars. */
const ROWS = 10
const COLUMNS = 10
const BARS = 20

interface PageText {
  title: string
  /** Names and values of what is open: run, worker, span, steps. */
  place: readonly (readonly [string, string])[]
  /** In the order of the page. */
  payloads: readonly Payload[]
}

export function pageMarkdown({ title, place, payloads }: PageText): string {
  const notices = (about: string) =>
    payloads.flatMap((each) => (each.kind === 'notices' && each.about === about ? each.notices : []))
  // The table of a tree has the same rows.
  const hasTable = payloads.some(({ kind }) => kind === 'table')
  const blocks = [
    `# ${plain(title)}`,
    place.map(([name, value]) => `${name}: ${code(value)}`).join(' · '),
    ...notices('answer').map((notice) => sentence(notice, `${notice.text} ${notice.todo}`)),
    ...payloads.flatMap((each) => (isTiles(each) ? figureTable(each.figures) : [])),
    ...findings(notices('training')),
    ...payloads.flatMap((each) => (isTiles(each) || (each.kind === 'tree' && hasTable) ? [] : section(each))),
  ]
  return `${blocks.filter(Boolean).join('\n\n')}\n`
}

const isTiles = (payload: Payload): payload is Figures => payload.kind === 'figures' && payload.style === 'headline'

function section(payload: Payload): string[] {
  const titled = (body: string[]) =>
    body.length === 0 || !('title' in payload) ? [] : [`## ${plain(payload.title)}`, ...body]
  switch (payload.kind) {
    case 'figures':
      return titled(figureTable(payload.figures))
    case 'breakdown':
      return titled(breakdownTable(payload))
    case 'series':
      return titled(seriesTable(payload))
    case 'table':
      return titled(rowsTable(payload))
    case 'tree':
      return titled(treeTable(payload))
    default:
      return []
  }
}

/** Control characters and line ends would end a row or a heading. */
const oneLine = (text: string) => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim()

/** An underscore inside a word means nothing. */
const escaped = (text: string) => text.replace(/[\\`*[\]<>|~#&]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g, '\\$&')

/** Text that Markdown shows as it is. An address or a mention would become a link. */
const plain = (text: string) => (/@|:\/\/|www\./i.test(text) ? code(text) : escaped(oneLine(text)))

function code(text: string): string {
  // In a table a bar ends the cell, also in code, unless a backslash escapes it.
  const inner = oneLine(text)
    .replace(/\\(?=\|)/g, '\\ ')
    .replaceAll('|', '\\|')
  if (inner === '') return '–'
  const longest = Math.max(0, ...(inner.match(/`+/g) ?? []).map((run) => run.length))
  const fence = '`'.repeat(longest + 1)
  return longest ? `${fence} ${inner} ${fence}` : `${fence}${inner}${fence}`
}

const LONGEST_NAME = 100

/** A name from the trace, which may also be a word of ours. */
const named = (text: string) => {
  const short = shortenMiddle(shortKernel(oneLine(text)), LONGEST_NAME)
  return /^[\p{L}\p{N} .,%()-]*$/u.test(short) ? plain(short) : code(short)
}

function shown(value: Scalar, unit: Unit, key = ''): string {
  if (unit === 'code') return code(String(value ?? ''))
  const text = format(value, unit)
  return plain(isChange(key) ? signed(text, value) : text)
}

function sentence(notice: Notice, template: string): string {
  const pieces = templatePieces(template.trim()).map((piece) => {
    if (piece.kind === 'text') return escaped(piece.text)
    const figure = notice.figures.find(({ metric }) => metric.key === piece.key)
    return figure ? `**${shown(figure.value, figure.metric.unit, figure.metric.key)}**` : plain(`{${piece.key}}`)
  })
  return oneLine(pieces.join(''))
}

function findings(notices: readonly Notice[]): string[] {
  if (notices.length === 0) return []
  const items = notices.slice(0, ROWS).map((notice, i) => {
    const { low_ns, high_ns } = notice.saving ?? { low_ns: 0, high_ns: 0 }
    const saves = high_ns ? ` Saves ${formatRange(low_ns, high_ns, 'ns')} per step.` : ''
    const todo = notice.todo ? ` Fix: ${sentence(notice, notice.todo)}` : ''
    const head = notice.title && `**${plain(notice.title)}** `
    return `${i + 1}. ${head}(${notice.severity}): ${sentence(notice, notice.text)}${saves}${todo}`
  })
  return ['## Findings', items.join('\n'), more(notices.length, 'finding')].filter(Boolean)
}

const more = (all: number, noun: string) => (all > ROWS ? `${ROWS} of ${counted(all, noun)}.` : '')

function grid(heads: readonly string[], numeric: readonly boolean[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(heads), line(numeric.map((is) => (is ? '---:' : '---'))), ...rows.map(line)].join('\n')
}

const figureTable = (figures: readonly Figure[]): string[] =>
  figures.length === 0
    ? []
    : [
        grid(
          ['Metric', 'Value'],
          [false, true],
          figures
            .slice(0, BARS)
            .map(({ metric, value, note }) => [
              plain(metric.title),
              shown(value, metric.unit, metric.key) + (note ? ` (${plain(note)})` : ''),
            ]),
        ),
      ]

function breakdownTable({ parts, total, unit, style }: Breakdown): string[] {
  if (parts.length === 0) return []
  const isChanges = style === 'waterfall'
  const scale = columnScale(unit, isChanges ? parts.map(({ value }) => value) : [total])
  const share = (value: number) => (total > 0 ? format(value / total, 'ratio') : '–')
  const rows = parts.slice(0, BARS).map(({ metric, value }) => {
    const text = format(value, unit, scale)
    return [named(metric.title), ...(isChanges ? [signed(text, value)] : [text, share(value)])]
  })
  return isChanges
    ? [grid(['Part', 'Change'], [false, true], rows)]
    : [grid(['Part', 'Value', 'Share'], [false, true, true], [...rows, ['Total', format(total, unit, scale), '']])]
}

function seriesTable({ x, x_metric, lines }: Series): string[] {
  if (x.length === 0 || x.length > BARS) return []
  const units = [...new Set(lines.map(({ metric }) => metric.unit))]
  const scales = units.map((unit) =>
    columnScale(
      unit,
      lines.flatMap((line) => (line.metric.unit === unit ? line.values : [])),
    ),
  )
  const scaleOf = (unit: Unit) => scales[units.indexOf(unit)]
  const heads = lines.map(({ metric }) => titled(metric, scaleOf(metric.unit).symbol))
  const rows = x.map((at, i) => [
    shown(at, x_metric.unit),
    ...lines.map(({ metric, values }) => formatNumber(values[i] ?? null, scaleOf(metric.unit))),
  ])
  return [grid([plain(x_metric.title), ...heads], [false, ...lines.map(() => true)], rows)]
}

const titled = (metric: Metric, symbol = '') => plain(symbol ? `${metric.title} (${symbol})` : metric.title)

function rowsTable({
  columns,
  rows,
  name_column,
  matched_rows,
}: Pick<Table, 'columns' | 'rows' | 'name_column' | 'matched_rows'>): string[] {
  const top = rows.slice(0, ROWS)
  if (top.length === 0) return []
  const isName = ({ metric: { key } }: Table['columns'][number]) => key === name_column
  const drawn = columns
    .filter((each) => isName(each) || (!each.hidden && top.some((row) => (row[each.metric.key] ?? '') !== '')))
    .sort((one, other) => Number(isName(other)) - Number(isName(one)))
    .slice(0, COLUMNS)
  const scales = familyScales(drawn, (key) => top.map((row) => row[key] ?? null))
  const cell = (row: Table['rows'][number], { metric: { key, unit } }: Table['columns'][number]) => {
    const value = row[key] ?? null
    if (key === name_column) return named(String(row.readable ?? value ?? '–'))
    const scale = scales.get(key)
    if (!isNumeric(unit) || !scale) return shown(value, unit)
    const text = formatNumber(value, scale)
    return isChange(key) ? signed(text, value) : text
  }
  const table = grid(
    drawn.map(({ metric }) => titled(metric, scales.get(metric.key)?.symbol)),
    drawn.map(({ metric }) => isNumeric(metric.unit)),
    top.map((row) => drawn.map((each) => cell(row, each))),
  )
  return [table, more(matched_rows, 'row')].filter(Boolean)
}

/** The largest nodes. */
function treeTable({ columns, rows, label_column, value_columns, total_nodes }: Tree): string[] {
  const size = (row: Tree['rows'][number]) => Number(row[value_columns[0]] ?? 0)
  const largest = [...rows].sort((one, other) => size(other) - size(one))
  return rowsTable({ columns, rows: largest, name_column: label_column, matched_rows: total_nodes })
}
