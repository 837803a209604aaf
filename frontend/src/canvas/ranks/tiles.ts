// Tiles requested by visible sections and their neighbours.

import { visibleTracks } from '../timeline/scene'
import { isEqualList, type VisibleSection } from './scene'

/** Prefetched tiles: limit per section and in total. */
const AHEAD = 24
const AHEAD_ALL = 96

/** `still`: number of visible sections at rest; 0 while moving, which disables prefetching. */
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

/** Cancels requests of an invisible section; its tiles stay cached. */
export function restTiles(shown: VisibleSection): void {
  if (!shown.requested) return
  shown.requested = null
  shown.scene?.model.store.rest()
}
