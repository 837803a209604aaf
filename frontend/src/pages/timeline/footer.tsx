// The timeline's footer: window, hits, colour key.
import type { Timeline } from '../../api/payloads'
import type { ColorBy } from '../../canvas/timeline/colors'
import type { LegendEntry } from '../../canvas/timeline/legend'
import type { Range } from '../../canvas/viewport'
import { categoryColor } from '../../lib/color'
import { format } from '../../lib/format'
import { shortenMiddle, shortKernel } from '../../lib/names'
import { Swatch } from '../../widgets/basics'
import type { TimelineOverlays } from './overlays'
import css from './footer.module.css'

/** Kinds besides operators; the legend lists only these. */
export interface RecordedKinds {
  device: boolean
  python: boolean
  modules: boolean
  async: boolean
}

export const recordedKinds = ({ busy_is_device, tracks, has_modules }: Timeline): RecordedKinds => ({
  device: busy_is_device,
  python: tracks.some(({ id }) => id.endsWith('/python')),
  modules: has_modules,
  async: tracks.some(({ id }) => id.endsWith('/async')),
})

export const KINDS: readonly { kind: string; label: string; needs?: keyof RecordedKinds }[] = [
  { kind: 'kernel', label: 'kernel', needs: 'device' },
  { kind: 'communication', label: 'communication', needs: 'device' },
  { kind: 'memcpy', label: 'copy', needs: 'device' },
  { kind: 'operator', label: 'operator' },
  { kind: 'runtime', label: 'runtime', needs: 'device' },
  { kind: 'python', label: 'Python', needs: 'python' },
  { kind: 'module', label: 'module', needs: 'modules' },
  { kind: 'annotation', label: 'annotation' },
  { kind: 'async', label: 'asynchronous', needs: 'async' },
]

export function TimelineFooter(props: {
  view: Range
  busy: boolean
  notes: readonly string[]
  found: TimelineOverlays['searchHits']
  colors: ColorBy
  legend: readonly LegendEntry[]
  holds: RecordedKinds
}) {
  const { view, busy, notes, found, colors, legend, holds } = props
  return (
    <footer data-testid="timeline-foot" className={css.foot}>
      <span className={css.now}>
        {format(view.end - view.start, 'ns')} visible
        {found && !found.problem && <HitCount found={found} />}
        {notes.map((note) => ` · ${note}`)}
        {busy && ' · loading…'}
      </span>
      <span className={css.key} data-testid="timeline-key">
        {colors === 'kind' ? (
          <Kinds holds={holds} />
        ) : (
          legend.map(({ label, color }) => (
            <span key={label} title={label}>
              <Swatch color={color} /> {shortenMiddle(shortKernel(label), 26)}
            </span>
          ))
        )}
      </span>
    </footer>
  )
}

function HitCount({ found }: { found: NonNullable<TimelineOverlays['searchHits']> }) {
  const { total, inSight, totalNs } = found
  const mean = total ? `, mean ${format(totalNs / total, 'ns')}` : ''
  return (
    <span
      data-testid="found"
      title="Sum of the durations of all hits, including nested ones"
    >{` · ${count(total)} found, ${format(totalNs, 'ns')} total${mean} · ${count(inSight)} visible`}</span>
  )
}

export const count = (value: number | null) => (value === null ? '…' : value.toLocaleString('en-US'))

function Kinds({ holds }: { holds: RecordedKinds }) {
  return (
    <>
      {KINDS.filter(({ needs }) => !needs || holds[needs]).map(({ kind, label }) => (
        <span key={kind}>
          <Swatch color={categoryColor(kind)} /> {label}
        </span>
      ))}
      {holds.device && <span title="Kernels that use matrix units, from their name or the trace">◥ matrix units</span>}
    </>
  )
}
