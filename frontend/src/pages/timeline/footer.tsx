// The timeline's footer: window, hits, colour key.
import type { ReactNode } from 'react'
import type { Timeline } from '../../api/payloads'
import type { ColorBy } from '../../canvas/timeline/colors'
import type { LegendEntry } from '../../canvas/timeline/legend'
import type { Range } from '../../canvas/viewport'
import { categoryColor } from '../../lib/color'
import { format } from '../../lib/format'
import { shortenMiddle } from '../../lib/names'
import { emptyHint } from '../../lib/search'
import { Swatch } from '../../widgets/basics'
import type { TimelineOverlays } from './overlays'
import css from './footer.module.css'

/** The legend lists only these kinds. */
export interface RecordedKinds {
  device: boolean
  host: boolean
  calls: boolean
  notes: boolean
  python: boolean
  modules: boolean
  communication: boolean
  async: boolean
}

export const recordedKinds = ({ busy_is_device, tracks, has_modules, has_communication }: Timeline): RecordedKinds => ({
  device: busy_is_device,
  host: tracks.some(({ is_device }) => !is_device),
  calls: busy_is_device && tracks.some(({ is_device }) => !is_device),
  notes: tracks.some(({ id, is_device }) => !is_device || id.endsWith('/notes')),
  python: tracks.some(({ id }) => id.endsWith('/python')),
  modules: has_modules,
  communication: has_communication,
  async: tracks.some(({ id }) => id.endsWith('/async')),
})

export const KINDS: readonly { kind: string; label: string; needs?: keyof RecordedKinds }[] = [
  { kind: 'kernel', label: 'kernel', needs: 'device' },
  { kind: 'communication', label: 'communication', needs: 'communication' },
  { kind: 'memcpy', label: 'copy', needs: 'device' },
  { kind: 'operator', label: 'operator', needs: 'host' },
  { kind: 'runtime', label: 'runtime', needs: 'calls' },
  { kind: 'python', label: 'Python', needs: 'python' },
  { kind: 'module', label: 'module', needs: 'modules' },
  { kind: 'annotation', label: 'annotation', needs: 'notes' },
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
  hasPath?: boolean
  hiding: Hiding
  /** Stands for the window and the hits for a while. */
  hint: ReactNode
  search: string
}) {
  const { view, busy, notes, found, colors, legend, holds, hasPath, hiding, hint, search } = props
  return (
    <footer data-testid="timeline-foot" className={css.foot}>
      {hint || (
        <span className={css.now}>
          {format(view.end - view.start, 'ns')} visible
          {found && !found.problem && <HitCount found={found} search={search} />}
          {notes.map((note) => ` · ${note}`)}
          {busy && ' · loading…'}
        </span>
      )}
      <span className={colors === 'kernel' ? `${css.key} ${css.two}` : css.key} data-testid="timeline-key">
        {hasPath && (
          <span title="Longest chain of dependent work in each step. Press . or , for its next or previous event.">
            <i className={css.path} /> critical path
          </span>
        )}
        <LegendEntries entries={entriesOf(colors, legend, holds)} {...hiding} />
        {colors === 'kind' && holds.device && (
          <span title="Kernels that use matrix units, from their name or the trace">◥ matrix units</span>
        )}
      </span>
    </footer>
  )
}

function HitCount({ found, search }: { found: NonNullable<TimelineOverlays['searchHits']>; search: string }) {
  const { total, inSight, totalNs } = found
  if (total === 0) return <span data-testid="found">{` · ${emptyHint(search)}`}</span>
  const mean = total ? `, mean ${format(totalNs / total, 'ns')}` : ''
  return (
    <span
      data-testid="found"
      title="Sum of the durations of all hits, including nested ones"
    >{` · ${count(total)} found, ${format(totalNs, 'ns')} total${mean} · ${count(inSight)} visible`}</span>
  )
}

export const count = (value: number | null) => (value === null ? '…' : value.toLocaleString('en-US'))

/** Kinds, names or classes; kinds come before names of kernels, whose number changes. */
function entriesOf(colors: ColorBy, legend: readonly LegendEntry[], holds: RecordedKinds): LegendEntry[] {
  if (colors !== 'kind' && colors !== 'kernel') return [...legend]
  const kinds = KINDS.filter(({ needs }) => !needs || holds[needs]).map(({ kind, label }) => ({
    key: kind,
    label,
    color: categoryColor(kind),
  }))
  return colors === 'kind' ? kinds : [...kinds.filter(({ key }) => key !== 'kernel'), ...legend]
}

/** Hidden entries, and a way to hide or show one; without a key, all are shown. */
export interface Hiding {
  hidden: ReadonlySet<string>
  onHide: (key?: string) => void
}

/** Entries that hide or show their events. Hidden ones stay. */
export function LegendEntries(props: { entries: readonly LegendEntry[] } & Hiding) {
  const { entries, hidden, onHide } = props
  const others = [...hidden].filter((key) => entries.every((entry) => entry.key !== key))
  const rest = others.map((key) => ({ key, label: key.replace(/^=/, ''), color: '' }))
  return (
    <>
      {hidden.size > 0 && (
        <button type="button" className={css.all} onClick={() => onHide()}>
          Show all
        </button>
      )}
      {[...rest, ...entries].map(({ key, label, color }) => {
        const isHidden = hidden.has(key)
        return (
          <button
            key={key}
            type="button"
            aria-pressed={!isHidden}
            title={`${label}: click to ${isHidden ? 'show' : 'hide'}`}
            className={isHidden ? css.off : undefined}
            onClick={() => onHide(key)}
          >
            <Swatch color={color} idle={isHidden} /> {shortenMiddle(label, 26)}
          </button>
        )
      })}
    </>
  )
}
