// The history of a device: curves above, every block as a band below, over the same part of it.
import { ActionIcon, Button, NativeSelect, SegmentedControl, Tooltip } from '@mantine/core'
import { memo, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Series, View } from '../../api/payloads'
import type { BandColor } from '../../canvas/bandsColors'
import type { BandsModel } from '../../canvas/bandsEngine'
import type { BandMarks, BandsAxis } from '../../canvas/bandsScene'
import type { LegendEntry } from '../../canvas/timelineLegend'
import { categoryColor } from '../../lib/color'
import { shortFrame } from '../../lib/frames'
import { useView } from '../../state/data'
import { setRoute, useRoute } from '../../state/route'
import { BandsCanvas, type BandsHandle } from '../../widgets/bands'
import { Bones, Card, Swatch, useTheme } from '../../widgets/basics'
import { Curve } from '../../widgets/curve'
import { type CurveMarks, cutSeries } from '../../widgets/curveOption'
import { ProblemPanel } from '../../widgets/problem'
import { marksOf, OFF } from './historyMarks'
import { pick } from './pick'
import { KEYS, NO_WINDOW, useBands, useHistoryWindow } from './useHistory'
import breakdownCss from '../../widgets/breakdown.module.css'
import textCss from '../../widgets/text.module.css'
import css from './historyCard.module.css'

const CURVE_HEIGHT = 168
const BANDS_HEIGHT = 340
/** Entries in the key of colours, as far as there is room. */
const KEY = 8
const DETAILS = [
  { value: '', label: 'Largest blocks' },
  { value: '13', label: 'More blocks' },
  { value: '15', label: 'Still more' },
  { value: 'all', label: 'All blocks' },
]
const COLORS: { value: BandColor; label: string }[] = [
  { value: 'stack', label: 'Stack' },
  { value: 'line', label: 'Line' },
  { value: 'category', label: 'Category' },
]

export function HistoryCard({ view, base }: { view: View; base: Query }) {
  const route = useRoute()
  const axis: BandsAxis = route.axis === 'time' ? 'time' : 'events'
  const { detail = '' } = route
  const query = useMemo<Query>(() => ({ ...base, axis, detail }), [base, axis, detail])
  const handle = useRef<BandsHandle>(null)
  const { model, problem, busy } = useBands(query, axis, () => handle.current?.redraw())
  if (!model) return problem ? <ProblemPanel problem={problem} /> : <Bones height={CURVE_HEIGHT + BANDS_HEIGHT} />
  return (
    <>
      {problem && <ProblemPanel problem={problem} />}
      <Drawn view={view} base={base} axis={axis} model={model} busy={busy} handle={handle} />
    </>
  )
}

function Drawn(props: {
  view: View
  base: Query
  axis: BandsAxis
  model: BandsModel
  busy: boolean
  handle: React.RefObject<BandsHandle | null>
}) {
  const { view, base, axis, model, busy, handle } = props
  const route = useRoute()
  const choices = COLORS.filter(({ value }) => value !== 'category' || model.head.categories.some(Boolean))
  // What somebody derived says more than where it was asked for.
  const usual = choices[choices.length - 1].value === 'category' ? 'category' : 'stack'
  const colors = choices.find(({ value }) => value === route.color)?.value ?? usual
  const window = useHistoryWindow(axis, model.head.extent)
  const marks = useMemo(() => marksOf(view, axis, route.at), [view, axis, route.at])
  const toMoment = useCallback((event: number) => setRoute({ at: String(event), row: '' }, true), [])
  const { start, end } = window.view
  const isWhole = start <= 0 && end >= model.head.extent
  return (
    <Card
      title="Active memory"
      actions={
        <span className={css.actions}>
          <SegmentedControl
            size="xs"
            aria-label="Axis"
            value={axis}
            disabled={!model.head.has_times}
            onChange={(next) => setRoute({ ...NO_WINDOW, axis: next === 'time' ? next : '' }, true)}
            data={[
              { value: 'events', label: 'Events' },
              { value: 'time', label: 'Time' },
            ]}
          />
          <SegmentedControl
            size="xs"
            aria-label="Colour by"
            value={colors}
            onChange={(next) => setRoute({ color: next === usual ? '' : next })}
            data={choices}
          />
          <NativeSelect
            size="xs"
            aria-label="Blocks drawn singly"
            value={DETAILS.some(({ value }) => value === route.detail) ? route.detail : ''}
            onChange={(event) => setRoute({ detail: event.currentTarget.value })}
            data={DETAILS}
          />
          <Moves handle={handle} isWhole={isWhole} onMoment={toMoment} />
        </span>
      }
    >
      <Curves base={base} axis={axis} start={start} end={end} marks={marks} handle={handle} />
      <div aria-busy={busy}>
        <BandsCanvas
          model={model}
          view={window.view}
          told={window.told}
          colors={colors}
          marks={marks}
          selected={route.block === undefined ? null : Number(route.block)}
          height={BANDS_HEIGHT}
          onView={window.onView}
          onUndo={window.undo}
          onPick={(row) => setRoute({ block: row === null ? '' : String(row) })}
          onMoment={toMoment}
          handle={handle}
        />
      </div>
      <Key handle={handle} asked={busy ? null : `${start} ${end} ${colors} ${axis} ${route.detail}`} marks={marks} />
    </Card>
  )
}

/** Buttons that do what hands do on the canvas. */
function Moves(props: {
  handle: React.RefObject<BandsHandle | null>
  isWhole: boolean
  onMoment: (event: number) => void
}) {
  const { handle, isWhole, onMoment } = props
  const buttons: [string, string, () => void, boolean][] = [
    ['Earlier', '‹', () => handle.current?.pan(-0.25), !isWhole],
    ['Later', '›', () => handle.current?.pan(0.25), !isWhole],
    ['Zoom in', '+', () => handle.current?.zoom(0.5), true],
    ['Zoom out', '−', () => handle.current?.zoom(2), !isWhole],
    ['Show everything', '↺', () => handle.current?.reset(), true],
  ]
  return (
    <span className={textCss.row}>
      {buttons.map(([title, sign, action, enabled]) => (
        <Tooltip key={title} label={title}>
          <ActionIcon size="sm" variant="default" aria-label={title} disabled={!enabled} onClick={action}>
            {sign}
          </ActionIcon>
        </Tooltip>
      ))}
      <Tooltip label="Look at the moment in the middle (on the canvas: Shift-click, or M)">
        <Button
          size="compact-xs"
          variant="default"
          onClick={() => {
            const event = handle.current?.pointed() ?? null
            if (event !== null) onMoment(event)
          }}
        >
          Look at this moment
        </Button>
      </Tooltip>
    </span>
  )
}

/** Drawn anew when the window comes to rest, and not while tiles come. */
const Curves = memo(function Curves(props: {
  base: Query
  axis: BandsAxis
  start: number
  end: number
  marks: BandMarks
  handle: React.RefObject<BandsHandle | null>
}) {
  const { base, axis, start, end, marks, handle } = props
  const route = useRoute()
  const [low, high] = KEYS[axis]
  const [from = '', to = ''] = [route[low], route[high]]
  const query = useMemo<Query>(() => ({ ...base, axis, [low]: from, [high]: to }), [base, axis, low, high, from, to])
  const resource = useView('active_memory', query)
  const off = OFF[axis]
  const series = resource.data && pick(resource.data, 'curve', 'series')
  const shown = useMemo(() => series && cutSeries(series, start - off, end - off), [series, start, end, off])
  const drawn = useMemo<CurveMarks>(
    () => ({
      bands: marks.steps.map((step) => ({ label: '', start: step.start - off, end: step.end - off })),
      peak: null,
      moment: marks.moment === null ? null : marks.moment - off,
      window: [start - off, end - off],
    }),
    [marks, off, start, end],
  )
  if (resource.problem && !shown) return <ProblemPanel problem={resource.problem} />
  if (resource.data && !series && !resource.busy) return null
  if (!shown) return <Bones height={CURVE_HEIGHT} />
  const unitOf: Record<string, string> = { events: 'count', time: 'ns' }
  // While the other axis is under way its points mean nothing here.
  if (shown.x_metric.unit !== unitOf[axis]) return <Bones height={CURVE_HEIGHT} />
  return (
    <>
      <Curve
        series={shown}
        marks={drawn}
        height={CURVE_HEIGHT}
        onWindow={(first, last) => setRoute({ ...NO_WINDOW, [low]: String(first), [high]: String(last) }, true)}
        onReset={() => setRoute(NO_WINDOW, true)}
        onMoment={(at) => {
          const event = axis === 'events' ? at : (handle.current?.eventAt(at) ?? null)
          if (event !== null) setRoute({ at: String(event), row: '' }, true)
        }}
      />
      <LineKeys series={shown} />
    </>
  )
})

const LineKeys = ({ series }: { series: Series }) => (
  <ul className={breakdownCss.key}>
    {series.lines.map((line) => (
      <li key={line.metric.key}>
        <Swatch color={categoryColor(line.category)} />
        {line.metric.title}
      </li>
    ))}
  </ul>
)

/** What colours and marks mean, as far as they are in sight. */
function Key(props: { handle: React.RefObject<BandsHandle | null>; asked: string | null; marks: BandMarks }) {
  const { handle, asked, marks } = props
  const theme = useTheme()
  const [legend, setLegend] = useState<LegendEntry[]>([])
  // biome-ignore lint/correctness/useExhaustiveDependencies: asked again when the picture is another one
  useEffect(() => {
    if (asked !== null) setLegend(handle.current?.legend(KEY) ?? [])
  }, [asked, theme])
  return (
    <ul className={`${breakdownCss.key} ${css.key}`} data-testid="bands-key">
      {legend.map(({ label, color }) => (
        <li key={label} title={label}>
          <Swatch color={color} />
          {shortFrame(label, 44)}
        </li>
      ))}
      <li>
        <Swatch color={theme.idle} />
        smaller blocks, summed
      </li>
      {marks.ooms.length > 0 && (
        <li>
          <Swatch color={theme.highEdge} />
          out of memory
        </li>
      )}
      <li className={textCss.mute}>Wheel zooms, drag moves, click keeps a block, Shift-click looks at a moment</li>
    </ul>
  )
}
