// Which tiles the sections of ranks want: those in sight and some around them, asked for when something changed.

import { visibleTracks } from '../timeline/scene'
import { isEqualList, type VisibleSection } from './scene'

/** Tiles asked for ahead: of one section at most, and of all that are in sight. */
const AHEAD = 24
const AHEAD_ALL = 96

/** `still`: so many sections are in sight and rest; 0 = they move, and nothing is asked for ahead. */
export function wantTiles(shown: VisibleSection, still: number): void {
  const { scene, overview, isOpen } = shown
  if (!scene) return
  const { model, level, view } = scene
  const asked = [
    view.start,
    view.end,
    level,
    model.store.version,
    isOpen && scene.layout,
    isOpen && scene.scroll,
    still,
  ]
  if (shown.requested && isEqualList(shown.requested, asked)) {
    model.store.stay()
    return
  }
  shown.requested = asked
  const groups = new Set(overview.map((lane) => model.lanes[lane].group))
  if (isOpen)
    for (const { track } of visibleTracks(scene, false))
      if (track.kind === 'lane') groups.add(model.lanes[track.lane].group)
  const span = view.end - view.start
  const around = { start: view.start - span / 2, end: view.end + span / 2 }
  const coarsest = model.head.levels.length - 1
  const ahead = [
    ...model.tiles(coarsest, groups, view),
    ...model.tiles(Math.min(level + 1, coarsest), groups, around),
    ...model.tiles(level, groups, around),
  ]
  model.store.want([
    ...model.tiles(level, groups, view),
    ...ahead.slice(0, Math.min(AHEAD, still && Math.ceil(AHEAD_ALL / still))),
  ])
}

/** What is out of sight wants none; what is there stays as long as there is room. */
export function restTiles(shown: VisibleSection): void {
  if (!shown.requested) return
  shown.requested = null
  shown.scene?.model.store.rest()
}
