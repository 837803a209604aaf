// Sections of a multi-rank timeline: placement and notes.
import { useMemo } from 'react'
import type { Collective, RankSection } from '../../../canvas/ranks/scene'
import type { Range } from '../../../canvas/viewport'
import { format } from '../../../lib/format'
import { type Address, sameAddress } from '../../../lib/profiles'
import { type Corrected, fromAxis, type Placement, placement, SAME, type Way } from '../../../lib/rankAxis'
import { rankName } from '../../../lib/rankSelection'
import { alignedSteps } from '../../../lib/stepSelection'
import type { Rank } from './rankSource'

export interface RankName {
  /** '' = the open profile. */
  key: string
  address: Address
}

/** The baseline of a comparison with the open profile. */
export interface Compared {
  address: Address
  window: string
  steps: string
}

/** Each loaded rank's place on the open one's axis. */
export function usePlacements(
  named: readonly RankName[],
  known: ReadonlyMap<string, Rank>,
  corrected: ReadonlyMap<string, Corrected>,
  open: Address,
  wish: Way,
  steps: string,
  baseline: Compared | null,
): ReadonlyMap<string, Placement> {
  return useMemo(() => {
    const stepsOf = ({ key }: RankName) => known.get(key)?.profile?.steps ?? []
    const clockOf = ({ key, address }: RankName) => {
      const profile = known.get(key)?.profile
      const isOwn = address.run === open.run && address.span === open.span
      return {
        wall: profile?.clock ?? null,
        corrected: isOwn ? (corrected.get(address.worker) ?? null) : null,
      }
    }
    const first = clockOf(named[0])
    const own = stepsOf(named[0])
    return new Map(
      named.map((one): [string, Placement] => {
        if (one.key === '') return [one.key, { ...SAME, way: wish, residual_ns: first.corrected?.residual_ns ?? null }]
        // Recordings of different times are aligned by a step.
        const way = one.address.run === open.run && one.address.span === open.span ? wish : 'start'
        const theirs = stepsOf(one)
        const chosen = baseline && sameAddress(baseline.address, one.address) ? baseline.steps : ''
        const labels = [own, theirs].map((each) => each.map(({ label }) => label))
        const [mine, other] = alignedSteps(labels[0], labels[1], steps, chosen)
        const startOf = (all: typeof own, label: string | undefined) =>
          all.find((step) => step.label === label)?.start_ns ?? 0
        return [
          one.key,
          placement({ ...first, start: startOf(own, mine) }, { ...clockOf(one), start: startOf(theirs, other) }, way),
        ]
      }),
    )
  }, [named, known, corrected, open, wish, steps, baseline])
}

function alignment({ way, correction_ns, residual_ns }: Placement): string {
  if (way !== 'clocks') return way === 'wall' ? 'wall clock' : 'aligned by step'
  const sign = (correction_ns ?? 0) < 0 ? '−' : '+'
  const added = correction_ns === null ? '' : ` ${sign}${format(Math.abs(correction_ns), 'ns')}`
  return `clock${added}${residual_ns === null ? '' : ` ±${format(residual_ns, 'ns')}`}`
}

export function sectionOf(
  { key, address }: RankName,
  open: Address,
  rank: Rank | undefined,
  placed: Placement = SAME,
  nodes: ReadonlyMap<string, string>,
  baseline: Compared | null,
): RankSection {
  const { profile = null, model = null, problem = null } = rank ?? {}
  const isOwn = address.run === open.run
  const fraction = profile?.state === 'loading' ? `, ${format(profile.fraction, 'ratio')}` : ''
  const note = model ? '' : problem ? problem.what : rank ? `Reading the trace${fraction}` : 'Loads when visible'
  const node = isOwn ? (nodes.get(address.worker) ?? '') : ''
  const isBaseline = baseline !== null && sameAddress(baseline.address, address)
  const side = isBaseline ? 'Baseline: ' : baseline && key === '' ? 'Experiment: ' : ''
  const name = key === '' ? open.worker : rankName(key)
  const isSameRun = baseline?.address.run === open.run
  const where = side === '' ? '' : isSameRun ? ` · span ${address.span}` : key === '' ? ` of ${open.run}` : ''
  return {
    key,
    title: side + (isSameRun && isBaseline ? address.worker : name) + where,
    subtitle: [key === '' ? 'time axis' : model ? alignment(placed) : '', node].filter(Boolean).join(' · '),
    note,
    isFailed: problem !== null,
    model,
    placement: placed,
  }
}

export function visibleStretches(
  named: readonly RankName[],
  sections: readonly RankSection[],
  sight: readonly string[],
  open: Address,
  view: Range,
): ReadonlyMap<string, Range> {
  return new Map(
    named.flatMap(({ key, address }, i): [string, Range][] => {
      const isOwn = address.run === open.run && address.span === open.span
      const { model, placement: placed } = sections[i]
      if (!isOwn || !model || !sight.includes(key)) return []
      return [[address.worker, { start: fromAxis(placed, view.start), end: fromAxis(placed, view.end) }]]
    }),
  )
}

export function renameRank(collective: Collective, own: string): Collective {
  const name = (rank: string) => (rank === own ? '' : rank)
  return {
    ...collective,
    last: collective.last === '' ? '?' : name(collective.last),
    calls: collective.calls.map((call) => ({ ...call, rank: name(call.rank) })),
  }
}

export const sectionNotes = (sections: readonly RankSection[]) =>
  new Map(sections.map(({ key, subtitle, note }) => [key, note || subtitle]))
