// The aligned call tree of two profiles.
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Metric, Tree } from '../api/payloads'
import { childrenOf, type Level, type LevelRow, levelView, nodeAt, type Order, pathOf } from '../lib/callTree'
import { categoryColor } from '../lib/color'
import { columnScale, exactText, format, formatNumber, type Scale, signed } from '../lib/format'
import { shortCall } from '../lib/names'
import { MetricName, Swatch, trendClass, Value } from './basics'
import { ChevronRight } from './icons'
import { Presence } from './tableCells'
import css from './callTree.module.css'
import layoutCss from './layout.module.css'
import plainTableCss from './plainTable.module.css'
import rowNameCss from './rowName.module.css'
import textCss from './text.module.css'

const FIRST = 40
const MORE = 400
const SUM: Metric = {
  key: 'sum',
  title: 'Accumulated',
  unit: 'ns',
  definition: 'Running sum of the changes. The last row is the total change.',
  window: '',
}

export function CallTree(props: {
  tree: Tree
  path: readonly string[]
  order: Order
  onPath: (path: string[]) => void
}) {
  const { tree, path, order, onPath } = props
  const root = useRef<HTMLDivElement>(null)
  const children = useMemo(() => childrenOf(tree), [tree])
  const node = useMemo(() => nodeAt(tree, children, path), [tree, children, path])
  const [shown, setShown] = useState({ node, limit: FIRST })
  const limit = shown.node === node ? shown.limit : FIRST
  const view = useMemo(() => levelView(tree, children, node, order, limit), [tree, children, node, order, limit])
  const entered = useRef<number | null>(null)
  const go = (target: number) => {
    // Going up, focus the row that was left; going down, the first.
    let from = -1
    for (let at = node; at >= 0 && at !== target; at = tree.parent[at]) from = at
    entered.current = from
    onPath(pathOf(tree, children, target))
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: the focus follows the level
  useEffect(() => {
    if (entered.current === null) return
    const find = (selector: string) => root.current?.querySelector<HTMLElement>(selector)
    const target = find(`[data-node="${entered.current}"]`) ?? find('tbody button') ?? find('[aria-current]')
    target?.focus()
    entered.current = null
  }, [node])

  const ancestors: number[] = []
  for (let at = node; at >= 0; at = tree.parent[at]) ancestors.unshift(at)
  return (
    <div ref={root} data-testid="call-tree" className={css.tree}>
      <nav aria-label="Place in the call tree" data-testid="crumbs" className={css.crumbs}>
        {[-1, ...ancestors].map((at, i) => {
          const name = at < 0 ? 'All' : shortCall(String(tree.rows[at].name), String(tree.rows[at].node_kind))
          return (
            <span key={at}>
              {i > 0 && <ChevronRight />}
              {at === node ? (
                <b aria-current="location" tabIndex={-1} className={at < 0 ? undefined : textCss.mono}>
                  {name}
                </b>
              ) : (
                <button type="button" className={textCss.link} onClick={() => go(at)}>
                  <span className={at < 0 ? undefined : textCss.mono}>{name}</span>
                </button>
              )}
            </span>
          )
        })}
        {node < 0 && <small className={textCss.mute}>select a call to see its nested calls</small>}
      </nav>
      {view.rows.length > 0 ? (
        <LevelTable
          tree={tree}
          whole={view.total}
          rows={view.rows}
          onDown={go}
          onUp={node < 0 ? null : () => go(tree.parent[node])}
        />
      ) : (
        <Leaf level={view.total} />
      )}
      {view.rows.some((row) => row.role === 'rest') && (
        <button type="button" className={textCss.link} onClick={() => setShown({ node, limit: limit + MORE })}>
          Show {Math.min(MORE, (children.get(node)?.length ?? 0) - limit).toLocaleString('en-US')} more
        </button>
      )}
    </div>
  )
}

function Leaf({ level }: { level: Level }) {
  return (
    <p className={textCss.none}>
      No nested calls recorded. The call took <Value value={level.base} unit="ns" /> in the baseline and{' '}
      <Value value={level.exp} unit="ns" /> in the experiment: <Value value={level.delta} unit="ns" change />.
    </p>
  )
}

function LevelTable(props: {
  tree: Tree
  whole: Level
  rows: readonly LevelRow[]
  onDown: (node: number) => void
  onUp: (() => void) | null
}) {
  const { tree, whole, rows, onDown, onUp } = props
  const metric = (key: string) => tree.columns.find((column) => column.metric.key === key)?.metric
  const scale = columnScale('ns', [whole.base, whole.exp, ...rows.flatMap((row) => [row.base, row.exp])])
  const calls = columnScale('number', [])
  const widest = Math.max(...rows.flatMap((row) => [row.base, row.exp]), 1e-9)
  const sums = [0, ...rows.map((row) => row.sum)]
  const [low, high] = [Math.min(...sums), Math.max(...sums)]
  const onKeyDown = (event: React.KeyboardEvent<HTMLElement>) => {
    const buttons = Array.from(event.currentTarget.querySelectorAll<HTMLElement>('button'))
    const at = buttons.indexOf(event.target as HTMLElement)
    if (event.key === 'ArrowDown') buttons[at + 1]?.focus()
    else if (event.key === 'ArrowUp') buttons[at - 1]?.focus()
    else if (event.key === 'ArrowRight') buttons[at]?.click()
    else if (event.key === 'ArrowLeft') onUp?.()
    else return
    event.preventDefault()
  }
  const head = (key: string, short: string) => {
    const known = metric(key)
    return known ? <MetricName metric={known}>{short}</MetricName> : short
  }
  return (
    <div className={layoutCss.scroll} tabIndex={0}>
      <table className={`${plainTableCss.table} ${css.levels}`}>
        <thead>
          <tr>
            <th scope="col" className={css.name}>
              Name
            </th>
            <th scope="col" className={css.calls}>
              Calls
            </th>
            <td className={css.bars} />
            <th scope="col">
              <span className={css.side}>
                <Swatch color="var(--tt-base)" />
                {head('base_ns', 'Baseline')}
              </span>{' '}
              ({scale.symbol})
            </th>
            <th scope="col">
              <span className={css.side}>
                <Swatch color="var(--tt-exp)" />
                {head('exp_ns', 'Experiment')}
              </span>{' '}
              ({scale.symbol})
            </th>
            <th scope="col">
              {head('delta_ns', 'Change')} ({scale.symbol})
            </th>
            <th scope="col" className={css.sum}>
              <MetricName metric={SUM} /> ({scale.symbol})
            </th>
          </tr>
        </thead>
        <tbody onKeyDown={onKeyDown}>
          {rows.map((row, i) => (
            <tr
              key={row.node >= 0 ? row.node : row.role}
              className={row.below && row.role === 'child' ? css.go : undefined}
              onClick={
                row.below && row.role === 'child'
                  ? () => !window.getSelection()?.toString() && onDown(row.node)
                  : undefined
              }
            >
              <th scope="row" className={css.name}>
                <NameCell row={row} onDown={onDown} />
              </th>
              <td className={css.calls}>
                <Calls row={row} scale={calls} />
              </td>
              <td className={css.bars} aria-hidden="true">
                <Bar side="base" share={row.base / widest} />
                <Bar side="exp" share={row.exp / widest} />
              </td>
              <Numbers level={row} scale={scale} />
              <td className={css.sum}>
                <Accumulated from={i === 0 ? 0 : rows[i - 1].sum} to={row.sum} low={low} high={high} />
                <Value value={row.sum} unit="ns" scale={scale} bare change />
              </td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row" className={css.name}>
              {whole.name === '' ? 'All' : 'Total'}
            </th>
            <td className={css.calls}>{whole.baseCalls !== null && <Calls row={whole} scale={calls} />}</td>
            <td className={css.bars} />
            <Numbers level={whole} scale={scale} />
            <td className={css.sum} />
          </tr>
        </tfoot>
      </table>
    </div>
  )
}

function NameCell({ row, onDown }: { row: LevelRow; onDown: (node: number) => void }) {
  if (row.role === 'self') return <span className={textCss.mute}>itself</span>
  if (row.role === 'rest')
    return <span className={textCss.mute}>{row.below.toLocaleString('en-US')} others with smaller changes</span>
  const name = (
    <span data-testid="call" className={textCss.mono} title={row.name}>
      {shortCall(row.name, row.kind)}
    </span>
  )
  return (
    <span className={css.cell}>
      {row.kind !== 'phase' && (
        <span title={row.kind} className={textCss.row}>
          <Swatch color={categoryColor(row.kind)} />
        </span>
      )}
      {row.below > 0 ? (
        <button
          type="button"
          className={rowNameCss.rowName}
          data-node={row.node}
          aria-label={`${row.name}: ${row.below} below`}
          onClick={(event) => {
            event.stopPropagation()
            onDown(row.node)
          }}
        >
          {name}
          <ChevronRight />
        </button>
      ) : (
        <span className={`${rowNameCss.rowName} ${css.leaf}`} title="No nested calls recorded">
          {name}
        </span>
      )}
      {row.presence !== 'both' && <Presence presence={row.presence} />}
    </span>
  )
}

const Bar = ({ side, share }: { side: 'base' | 'exp'; share: number }) => (
  <i
    className={`${css.pair} ${side === 'base' ? css.base : css.exp}`}
    style={{ width: `${share * 100}%`, minWidth: share > 0 ? 1 : 0 }}
  />
)

function Calls({ row, scale }: { row: Level; scale: Scale }) {
  if (row.baseCalls === null || row.expCalls === null) return null
  const [base, exp] = [formatNumber(row.baseCalls, scale), formatNumber(row.expCalls, scale)]
  const title = `Baseline ${exactText(row.baseCalls, 'number')}, experiment ${exactText(row.expCalls, 'number')}`
  return (
    <span className={textCss.num} title={title}>
      {base === exp ? base : `${base} → ${exp}`}
    </span>
  )
}

function Numbers({ level, scale }: { level: Level; scale: Scale }) {
  const ratio =
    level.base > 0 ? `${signed(format(level.delta / level.base, 'ratio'), level.delta)} of the baseline` : ''
  return (
    <>
      <td>
        <Value value={level.base} unit="ns" scale={scale} bare />
      </td>
      <td>
        <Value value={level.exp} unit="ns" scale={scale} bare />
      </td>
      <td>
        <span
          className={`${textCss.num} ${trendClass(level.delta, 'ns')}`}
          title={[exactText(level.delta, 'ns'), ratio].filter(Boolean).join(' · ')}
        >
          {signed(formatNumber(level.delta, scale), level.delta)}
        </span>
      </td>
    </>
  )
}

/** The running sum's position between its extremes. */
function Accumulated({ from, to, low, high }: { from: number; to: number; low: number; high: number }) {
  if (high === low) return null
  const at = (value: number) => ((value - low) / (high - low)) * 100
  return (
    <span className={css.accumulated} aria-hidden="true">
      <i className={css.zero} style={{ left: `${at(0)}%` }} />
      {to !== from && (
        <i
          className={to > from ? css.rise : css.fall}
          style={{ left: `${at(Math.min(from, to))}%`, width: `${Math.abs(at(to) - at(from))}%` }}
        />
      )}
    </span>
  )
}
