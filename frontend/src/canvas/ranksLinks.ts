// The same collective on several ranks: bands that lead from section to section.
import { fromAxis, toAxis } from '../lib/rankAxis'
import { BUSY, COMMUNICATION } from './ranksBars'
import { SECTION } from './ranksLayout'
import type { Call, Meeting, RanksScene, Shown } from './ranksScene'
import { callKey } from './ranksScene'
import { paint } from './surface'
import { BAR, HEAD, rowTop } from './timelineLayout'
import { firstEndingAfter, type Piece } from './timelineModel'
import { toX } from './timelineScene'

/** More collectives than these in sight are not linked: nobody could follow a band. */
export const LINKED = 120
/** Colours of ranks that came last. */
const COLORS = 10

/** One end of a band: the time of a call, and where it leaves the section upwards and downwards. */
interface End {
  x0: number
  x1: number
  top: number
  bottom: number
}

/** The collective of the event under the pointer. */
export function pointedMeeting({ hover, sections, partners }: RanksScene): Meeting | undefined {
  const placed = sections.find(({ section }) => section.key === hover?.rank)?.section.placement
  if (!hover || !placed) return undefined
  return partners.get(callKey(hover.rank ?? '', Math.round(fromAxis(placed, hover.start))))
}

/** The collective of the event under the pointer, else of the selected one. */
export function chosenMeeting(scene: RanksScene): Meeting | undefined {
  const { selected, rank, partners } = scene
  return pointedMeeting(scene) ?? (selected ? partners.get(callKey(rank, selected.start)) : undefined)
}

/** Colour of a rank, by its place among the sections. */
export const rankColor = (scene: RanksScene, rank: string) => {
  const at = scene.sections.findIndex(({ section }) => section.key === rank)
  return paint(at < 0 ? 'other' : `slice${at % COLORS}`, 1, scene.theme).fill
}

export function drawLinks(
  context: CanvasRenderingContext2D,
  scene: RanksScene,
  [first, last]: [number, number],
  pieces: readonly Map<number, Piece[]>[],
): void {
  const chosen = chosenMeeting(scene)
  const many = scene.meetings.length > LINKED
  context.save()
  context.beginPath()
  context.rect(scene.gutter, HEAD, scene.width - scene.gutter, scene.height - HEAD)
  context.clip()
  const place = new Map(scene.sections.map(({ section }, i) => [section.key, i]))
  for (const meeting of scene.meetings) {
    const isChosen = meeting === chosen
    if (many && !isChosen) continue
    const ends = meeting.calls
      .flatMap((call) => {
        const at = place.get(call.rank)
        return at === undefined ? [] : [{ at, call }]
      })
      .sort((one, other) => one.at - other.at)
    const color = rankColor(scene, meeting.last)
    let before: { at: number; end: End } | null = null
    for (const { at, call } of ends) {
      const end = endOf(scene, at, call, pieces[at - first])
      // A band between two sections that are both beyond the same edge is not seen.
      if (before && before.at < last && at >= first) band(context, before.end, end, color, isChosen)
      if (isChosen && at >= first && at < last) outline(context, scene, at, end)
      before = { at, end }
    }
  }
  context.restore()
}

function band(context: CanvasRenderingContext2D, from: End, to: End, color: string, isChosen: boolean): void {
  const [y0, y1] = [from.bottom, to.top]
  context.beginPath()
  context.moveTo(from.x0, y0)
  context.lineTo(Math.max(from.x1, from.x0 + 1), y0)
  context.lineTo(Math.max(to.x1, to.x0 + 1), y1)
  context.lineTo(to.x0, y1)
  context.closePath()
  context.fillStyle = color
  context.globalAlpha = isChosen ? 0.4 : 0.14
  context.fill()
  context.globalAlpha = isChosen ? 1 : 0.55
  context.strokeStyle = color
  context.lineWidth = isChosen ? 1.5 : 1
  context.beginPath()
  context.moveTo(from.x0, y0)
  context.lineTo(to.x0, y1)
  context.moveTo(from.x1, y0)
  context.lineTo(to.x1, y1)
  context.stroke()
  context.globalAlpha = 1
}

/** The partner of the chosen event, in the head of its section. */
function outline(context: CanvasRenderingContext2D, scene: RanksScene, at: number, { x0, x1 }: End): void {
  const y = HEAD + scene.places[at].top - scene.scroll + COMMUNICATION
  context.strokeStyle = scene.theme.mark
  context.lineWidth = 1.5
  context.strokeRect(x0 - 1, y - 1, Math.max(2, x1 - x0) + 2, BUSY.height + 2)
}

/** A call leaves its section upwards at its bar in the head; downwards at the event itself where that is drawn. */
function endOf(scene: RanksScene, at: number, call: Call, pieces: Map<number, Piece[]> | undefined): End {
  const shown = scene.sections[at]
  const { placement } = shown.section
  const head = HEAD + scene.places[at].top - scene.scroll
  const row = pieces && rowOf(shown, call, pieces)
  return {
    x0: toX(scene, toAxis(placement, call.start)),
    x1: toX(scene, toAxis(placement, call.end)),
    top: head + COMMUNICATION,
    bottom: row === undefined ? head + COMMUNICATION + BUSY.height : head + SECTION + row + BAR,
  }
}

/** Where the event of a call is drawn among the tracks of its section. */
function rowOf({ scene, isOpen }: Shown, call: Call, pieces: Map<number, Piece[]>): number | undefined {
  if (!scene || !isOpen) return undefined
  const { model } = scene
  for (const [lane, { placed }] of scene.layout.lanes) {
    for (const { tile, start, end } of pieces.get(model.lanes[lane].group) ?? []) {
      if (!tile || call.start < start || call.start >= end) continue
      for (let row = 0; row < placed.rows; row++) {
        const line = model.lineOf(lane, row)
        const i = firstEndingAfter(tile, line, call.start)
        if (i < tile.ranges[line + 1] && tile.start[i] === call.start && tile.dur[i] === call.end - call.start)
          return rowTop(placed, row)
      }
    }
  }
  return undefined
}
