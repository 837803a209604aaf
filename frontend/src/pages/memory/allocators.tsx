// Allocator totals that the profile reports.

import { Checkbox } from '@mantine/core'
import { useMemo } from 'react'
import type { Figures, Profile, View } from '../../api/payloads'
import { format } from '../../lib/format'
import { figureValue, payloadByName } from '../../parts/payloadByName'
import { setRoute, useRoute } from '../../state/urlState'
import { Card } from '../../widgets/basics'
import { Choice } from '../../widgets/choice'
import { type CurveMarks, windowOf } from '../../widgets/curveOption'
import { FigureList } from '../../widgets/figures'
import { DevicePicker } from './devicePicker'
import { CurveCard } from './memoryCurve'
import css from './memory.module.css'

export const ALLOCATORS = 'memory_allocators'
export const COMPONENTS = 'memory_components'
const ALL = 'Reserved by allocator'

/** Empty if the profile reports no totals. */
export function AllocatorCards({ view, profile, hasBlocks }: { view: View; profile: Profile; hasBlocks: boolean }) {
  const { allocator = '' } = useRoute()
  const series = payloadByName(view, 'allocator_curve', 'series')
  const names = payloadByName(view, 'allocators', 'figures')
  const peaks = payloadByName(view, 'allocator_peaks', 'figures')
  const devices = payloadByName(view, 'allocator_devices', 'figures')
  const above = payloadByName(view, 'devices', 'figures')?.figures.map(({ metric }) => metric.title) ?? []
  // A device without blocks has nothing above.
  const hasMore = devices?.figures.some(({ metric }) => !above.includes(metric.title)) && devices.figures.length > 1
  const peak = useMemo(
    () => (series && allocator ? firstPeak(peaks, windowOf(series)) : null),
    [series, peaks, allocator],
  )
  if (!series || !names || !peaks) return null
  const choice = (
    <Choice
      label="Allocator"
      value={allocator}
      onChange={(next) => setRoute({ allocator: next }, true)}
      options={[
        { value: '', label: ALL },
        ...names.figures.map(({ metric }) => ({ value: metric.title, label: metric.title })),
      ]}
    />
  )
  return (
    <div className={css.top}>
      <CurveCard
        series={series}
        profile={profile}
        hasBlocks={hasBlocks}
        peak={peak}
        axis={allocator ? 'Memory' : 'Reserved'}
        lead={
          <>
            {devices && hasMore && (
              <DevicePicker
                devices={devices}
                chosen={series.subtitle}
                cleared={{ where: '', row: '', allocator: '' }}
              />
            )}
            {choice}
          </>
        }
      />
      <Card className={css.peaks} title={peaks.title} subtitle={peaks.subtitle}>
        <FigureList figures={peaks.figures} />
      </Card>
    </div>
  )
}

function firstPeak(peaks: Figures | null, [start, end]: readonly [number, number]): CurveMarks['peak'] {
  const [most, when] = peaks?.figures ?? []
  if (typeof most?.value !== 'number' || typeof when?.value !== 'number') return null
  return when.value >= start && when.value <= end
    ? { x: when.value, y: most.value, label: format(most.value, 'bytes') }
    : null
}

export function ZeroSwitch({ counts }: { counts: Figures | null }) {
  const { zeros } = useRoute()
  const zero = figureValue(counts, 'zero_components')
  if (typeof zero !== 'number' || zero === 0) return null
  return (
    <Checkbox
      size="sm"
      checked={Boolean(zeros)}
      label={`Include ${zero.toLocaleString('en-US')} empty components`}
      onChange={(event) => setRoute({ zeros: event.currentTarget.checked ? '1' : '', row: '' }, true)}
    />
  )
}
