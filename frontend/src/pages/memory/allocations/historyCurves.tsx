// Memory curves over the visible history.
import { memo, useMemo } from 'react'
import type { Query } from '../../../api/client'
import type { Series } from '../../../api/payloads'
import type { BlocksEngine } from '../../../canvas/blocks/engine'
import type { HistoryAxis, HistoryMarks } from '../../../canvas/blocks/scene'
import { payloadByName } from '../../../parts/payloadByName'
import { useQuery, useView } from '../../../state/data'
import { setRoute, useRoute } from '../../../state/urlState'
import { LineKeys, Placeholder } from '../../../widgets/basics'
import { Curve } from '../../../widgets/curve'
import { type CurveMarks, cutSeries } from '../../../widgets/curveOption'
import { ProblemPanel } from '../../../widgets/problem'
import { STATE_OFFSET } from './historyMarks'
import { KEYS, NO_WINDOW } from './useHistory'
import breakdownCss from '../../../widgets/breakdown.module.css'
import css from './historyCard.module.css'

const HEIGHT = 104

/** Drawn anew when the window comes to rest, and not while tiles come. */
export const HistoryCurves = memo(function HistoryCurves(props: {
  base: Query
  axis: HistoryAxis
  start: number
  end: number
  marks: HistoryMarks
  hasKey: boolean
  engine: React.RefObject<BlocksEngine | null>
}) {
  const { base, axis, start, end, marks, hasKey, engine } = props
  const route = useRoute()
  const [low, high] = KEYS[axis]
  const [from = '', to = ''] = [route[low], route[high]]
  const query = useQuery(base, { axis, [low]: from, [high]: to })
  const resource = useView('active_memory', query)
  const off = STATE_OFFSET[axis]
  const series = resource.data && payloadByName(resource.data, 'curve', 'series')
  const shown = useMemo(() => series && cutSeries(ownColors(series), start - off, end - off), [series, start, end, off])
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
  const unitOf: Record<string, string> = { events: 'count', time: 'ns' }
  // Points of the old axis do not apply to the new one.
  if (!shown || shown.x_metric.unit !== unitOf[axis]) return <Placeholder height={HEIGHT} />
  return (
    <>
      <div className={css.curves}>
        <Curve
          series={shown}
          marks={drawn}
          height={HEIGHT}
          isBare
          onWindow={(first, last) => setRoute({ ...NO_WINDOW, [low]: String(first), [high]: String(last) }, true)}
          onReset={() => setRoute(NO_WINDOW, true)}
          onMoment={(at) => {
            const event = axis === 'events' ? at : (engine.current?.eventAt(at) ?? null)
            if (event !== null) setRoute({ at: String(event), row: '' }, true)
          }}
        />
      </div>
      {hasKey && (
        <LineKeys lines={shown.lines} className={`${breakdownCss.key} ${breakdownCss.stacked} ${css.lines}`} />
      )}
    </>
  )
})

/** Colours of the bands are categories of memory: those of the curves are others. */
const ownColors = (series: Series): Series => ({
  ...series,
  lines: series.lines.map((line, i) => ({ ...line, category: `curve${i}` })),
})
