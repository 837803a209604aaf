// Cells and headers of the large table.
import type { Column, Scalar, Table, Unit } from '../api/payloads'
import { exactText, format, formatNumber, isChange, isNumeric, type Scale, signed, TIMES_FROM } from '../lib/format'
import { shortFrame } from '../lib/frames'
import { type Label, shortenMiddle, shortKernel } from '../lib/names'
import { shortChange } from '../lib/scales'
import { shareWidth } from '../lib/shareWidth'
import type { Row } from '../lib/tableRows'
import { trendClass } from './basics'
import badgeCss from './badge.module.css'
import css from './tableCells.module.css'
import textCss from './text.module.css'

export type NameStyle = 'plain' | 'kernel' | 'sequence' | 'frame' | 'change'

/** Between the kernels of a sequence. */
const ARROW = ' → '

const MONO_PX = 7.3
/** Width per character, in the widest of the system fonts. */
const TEXT_PX = 8.4
/** Extra pixels of a capital. */
const CAPITAL_PX = 1.6
/** Extra pixels of a wide letter. */
const WIDE_PX = 4
/** A column of texts of a few characters. */
const SHORT_PX = 76
const BAR_PX = 52

const textWidth = (text: string, unit: 'code' | 'text') =>
  unit === 'code'
    ? text.length * MONO_PX
    : text.length * TEXT_PX +
      (text.match(/\p{Lu}/gu)?.length ?? 0) * CAPITAL_PX +
      (text.match(/[mw]/g)?.length ?? 0) * WIDE_PX

/** A bold title and its arrow. */
const BOLD_PX = 10
/** Least pixels of numbers, and of ratios such as `12.5 times`. */
const NUMBER_PX = 78
const TIMES_PX = 100
const LONGEST_SYMBOL: Partial<Record<Unit, string>> = { ns: '(ms)', ratio: '(%)', count: '', number: '' }

/** Characters of the longer of two lines that a title and its unit fill as evenly as possible. */
export function twoLines(title: string, unit: Unit): number {
  const words = `${title} ${isNumeric(unit) ? (LONGEST_SYMBOL[unit] ?? '(MiB)') : ''}`.trim().split(' ')
  const length = (from: number, to?: number) => words.slice(from, to).join(' ').length
  return Math.min(...words.map((_, i) => Math.max(length(0, i + 1), length(i + 1))))
}

/** Initial width: header width for numbers, content width for texts, at most `widest`. */
export function startWidth(column: Column, rows: readonly Row[], widest: number, isSorted = false): number {
  const { unit, title, key } = column.metric
  if (key === 'presence') return 64
  if (unit === 'code' || unit === 'text') {
    const longest = rows
      .slice(0, 100)
      .reduce((most, row) => Math.max(most, textWidth(String(row[key] ?? ''), unit)), textWidth(title, 'text'))
    return Math.max(SHORT_PX, Math.min(widest, longest + 30))
  }
  // Sums of a query may have many digits.
  const widestNumber =
    unit === 'number' || unit === 'count'
      ? rows.slice(0, 100).reduce((most, row) => Math.max(most, format(row[key] ?? null, unit).length), 0) * TEXT_PX
      : 0
  const isTimes = unit === 'ratio' && rows.some((row) => Math.abs(Number(row[key] ?? 0)) >= TIMES_FROM)
  const least = isTimes ? TIMES_PX : NUMBER_PX
  return (
    Math.max(least, widestNumber + 24, Math.min(160, twoLines(title, unit) * 7 + (isSorted ? BOLD_PX : 0) + 30)) +
    (column.share ? BAR_PX : 0)
  )
}

/** Minimum width of a column of long names, and of its buttons, which hide if room is short. */
const NAME_PX = 340
const SPARE_PX = 50
/** Names below this width are never shortened. */
const WHOLE_PX = 216
const LEAST_PX = 96

const isText = ({ metric: { unit } }: Column) => unit === 'code' || unit === 'text'

/**
 * Column widths in `room` pixels. The name gets the rest, after the other texts are whole. If there is no rest, bars
 * hide and texts share the room. `whole` has the widths of whole texts.
 */
export function fittingWidths(
  columns: readonly Column[],
  starts: ReadonlyMap<string, number>,
  nameKey: string,
  room: number,
  whole: ReadonlyMap<string, number> = starts,
): Map<string, number> {
  const startOf = ({ metric }: Column) => starts.get(metric.key) ?? 100
  const widths = new Map(columns.map((column) => [column.metric.key, startOf(column)]))
  const others = columns.filter(({ metric }) => metric.key !== nameKey)
  const taken = () => others.reduce((sum, { metric }) => sum + (widths.get(metric.key) ?? 0), 0)
  let name = Math.min(NAME_PX, (starts.get(nameKey) ?? NAME_PX) + SPARE_PX)
  if (name + taken() > room) {
    const texts = others.filter(isText)
    const numbers = others.filter((column) => !texts.includes(column))
    const narrow = numbers.map((column) => startOf(column) - (column.share ? BAR_PX : 0))
    const least = texts.reduce((sum, column) => sum + Math.min(startOf(column), LEAST_PX), 0)
    const left = room - least - narrow.reduce((sum, width) => sum + width, 0)
    // Short names stay whole if possible.
    const short = Math.max(name - SPARE_PX, Math.min(name, WHOLE_PX))
    const given = [Math.min(name, NAME_PX - SPARE_PX), short].find((each) => each <= left)
    if (given === undefined)
      return widths.set(nameKey, fullWidthColumns(Math.min(name, NAME_PX - SPARE_PX), others.map(startOf), room))
    name = given
    numbers.forEach(({ metric }, i) => {
      widths.set(metric.key, narrow[i])
    })
    shareWidth(texts.map(startOf), left + least - name, LEAST_PX).forEach((width, i) => {
      widths.set(texts[i].metric.key, width)
    })
  }
  let rest = room - Math.max(name, whole.get(nameKey) ?? 0) - taken()
  for (const { metric } of others.filter(isText)) {
    const more = Math.min(rest, (whole.get(metric.key) ?? 0) - (widths.get(metric.key) ?? 0))
    if (more <= 0) continue
    widths.set(metric.key, (widths.get(metric.key) ?? 0) + more)
    rest -= more
  }
  return widths.set(nameKey, Math.max(name, room - taken()))
}

/** A name width at which a column ends at the edge, so that none is cut. */
function fullWidthColumns(name: number, others: readonly number[], room: number): number {
  let left = room - name
  for (const width of others) {
    if (width > left) break
    left -= width
  }
  return name + Math.max(0, left)
}

export const roomOf = (width: number) => Math.max(8, Math.floor((width - 74) / MONO_PX))

export const kernelsOf = (sequence: string) => sequence.split(ARROW)

/** A kernel sequence by short names, without equal neighbours. */
export function shortSequence(names: string): string {
  const runs: { name: string; count: number }[] = []
  for (const full of kernelsOf(names)) {
    const name = shortKernel(full).replace(/^.* \[(.+)\]$/, '$1')
    const last = runs[runs.length - 1]
    if (last?.name === name) last.count++
    else runs.push({ name, count: 1 })
  }
  return runs.map(({ name, count }) => (count > 1 ? `${name} × ${count}` : name)).join(ARROW)
}

/** How names of a table's rows are shortened. */
export function shortOf(style: NameStyle, { rows, name_column }: Table): (name: string) => string {
  if (style === 'change') {
    const short = new Map(
      rows.map((row) => {
        const title = readableName(row, name_column)
        return [title, shortChange(title, String(row.change))]
      }),
    )
    return (name) => short.get(name) ?? name
  }
  return { kernel: shortKernel, sequence: shortSequence, frame: shortFrame, plain: (name: string) => name }[style]
}

/** The name of a row as people read it: a mangled one as it stood in the source. */
export const readableName = (row: Row, key: string) => String(row.readable ?? row[key] ?? '')

export function NameText({ text, label }: { text: string; label: Label }) {
  return (
    <span className={textCss.mono} title={text}>
      {label.short}
      {label.rest && ' '}
      {label.rest && <span className={`${textCss.mute} ${css.full}`}>{label.rest}</span>}
    </span>
  )
}

/** On which side of a comparison a row is; one that both have needs no word. */
export function Presence({ presence }: { presence: string }) {
  if (presence === 'new')
    return (
      <span data-testid="new" className={`${badgeCss.badge} ${badgeCss.new}`}>
        new
      </span>
    )
  if (presence === 'gone') return <span className={badgeCss.badge}>gone</span>
  return <span className={textCss.mute}>{presence}</span>
}

const FRAMES = new Set([
  'allocation_frame',
  'call_line',
  'caller_frame',
  'launch_frame',
  'compiled_code',
  'forward_line',
  'idle_line',
])

/** Whether a column has Python frames, which lose folders first. */
export const isFrame = ({ metric }: Column) => FRAMES.has(metric.key)

/** The reason of a value, from its companion column. */
const reasonOf = (row: Row, key: string) => (row[`${key}_by`] ? ` (${row[`${key}_by`]})` : '')

/** The verdict on the change of a row and its interval; null if noise is unknown. */
export function noiseOf(row: Row, unit: Unit): { isWithin: boolean; text: string } | null {
  const { noise, interval_low_ns: low, interval_high_ns: high } = row
  if (unit !== 'ns' || !noise) return null
  const interval = [low, high].map((end) => signed(format(end ?? null, unit), end ?? null)).join(' to ')
  return { isWithin: noise === 'within noise', text: `${noise}, 95 % interval ${interval}` }
}

export function CellText(props: {
  row: Row
  column: Column
  scale: Scale
  total: Scalar
  most: number
  width: number
}) {
  const { row, column, scale, total, most, width } = props
  const value = row[column.metric.key] ?? null
  const { unit } = column.metric
  if (!isNumeric(unit)) {
    const text = format(row[`${column.metric.key}_title`] ?? value, unit)
    if (column.metric.key === 'presence') return <Presence presence={text} />
    if (unit !== 'code')
      return (
        <span className={css.text} title={text + reasonOf(row, column.metric.key)}>
          {text}
        </span>
      )
    const room = Math.max(6, Math.floor((width - 18) / MONO_PX))
    const short = isFrame(column) ? shortFrame(text, room) : text
    return (
      <span className={textCss.mono} title={text}>
        {shortenMiddle(short, room)}
      </span>
    )
  }
  const part = typeof total === 'number' && total > 0 && typeof value === 'number' ? value / total : null
  const noise = isChange(column.metric.key) ? noiseOf(row, unit) : null
  const title =
    part === null ? exactText(value, unit) : `${exactText(value, unit)} · ${format(part, 'ratio')} of the total`
  return (
    <span className={css.number} title={noise ? `${title} · ${noise.text}` : title}>
      {column.share && (
        <span className={css.bar} aria-hidden="true">
          <i
            style={{
              width: `${most > 0 && typeof value === 'number' ? Math.min(1, Math.max(0, value / most)) * 100 : 0}%`,
            }}
          />
        </span>
      )}
      {isChange(column.metric.key) ? (
        <span className={`${textCss.num} ${noise?.isWithin ? textCss.mute : trendClass(value, unit)}`}>
          {signed(formatNumber(value, scale), value)}
        </span>
      ) : (
        <span className={textCss.num}>{formatNumber(value, scale)}</span>
      )}
    </span>
  )
}
