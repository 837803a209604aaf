// A profile's timeline model and tiles.
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Query } from '../../api/client'
import type { Problem, Profile, Timeline } from '../../api/payloads'
import { getTiles } from '../../api/tiles'
import type { Budget } from '../../canvas/tileCache'
import { TimelineModel } from '../../canvas/timeline/model'
import type { Bookmark } from '../../canvas/timeline/scene'
import type { Range } from '../../canvas/viewport'
import { parseSteps } from '../../lib/stepSelection'
import { useActivity } from '../../state/activity'
import { problemOf, useView } from '../../state/data'

interface TimelineData {
  model: TimelineModel | null
  problem: Problem | null
  busy: boolean
  /** Everything that is wanted has come at least once. */
  drawn: boolean
  failures: readonly Bookmark[]
}

/** `onTiles` is called when tiles have come. With `enabled` false nothing is asked for; a `budget` is shared with others. */
export function useTimeline(profile: Query, onTiles: () => void, enabled = true, budget?: Budget): TimelineData {
  const resource = useView('timeline', profile, enabled)
  const payload = resource.data?.payloads.timeline
  const head: Timeline | null = payload?.kind === 'timeline' ? payload : null
  const [busy, setBusy] = useState(false)
  const [drawn, setDrawn] = useState<TimelineModel | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const key = JSON.stringify(profile)
  const notify = useRef(onTiles)
  notify.current = onTiles
  const model = useMemo(() => {
    if (!head) return null
    const made: TimelineModel = new TimelineModel(
      head,
      async (level, tiles, signal) => {
        setBusy(true)
        const answer = await getTiles(JSON.parse(key) as Query, level, tiles, signal)
        if (answer.state === 'ready') return answer.data
        throw new Error('The trace is loading again.')
      },
      {
        onChange: () => {
          setBusy(made.store.busy)
          if (!made.store.busy) setDrawn(made)
          notify.current()
        },
        onProblem: (error) => setProblem(error === null ? null : problemOf(error)),
      },
      budget,
    )
    return made
  }, [head, key, budget])
  useEffect(() => () => model?.store.destroy(), [model])
  useActivity(busy)
  const marks = resource.data?.payloads.out_of_memory
  const failures = useMemo(
    () => (marks?.kind === 'series' ? marks.x.map((time) => ({ time: Number(time), note: marks.title })) : []),
    [marks],
  )
  return { model, problem: resource.problem ?? problem, busy, drawn: model !== null && drawn === model, failures }
}

/** The initial window: selected steps, else the first step, else everything. */
export function firstView(profile: Profile, steps: string, model: TimelineModel): Range {
  const labels = profile.steps.map((step) => step.label)
  const wanted = steps === '' ? new Set(labels.slice(0, 1)) : parseSteps(steps, labels)
  const chosen = profile.steps.filter((step) => wanted.has(step.label))
  if (chosen.length === 0) return { start: model.start, end: model.end }
  const start = Math.min(...chosen.map((step) => step.start_ns))
  return { start, end: Math.max(start + 1, ...chosen.map((step) => step.end_ns)) }
}
