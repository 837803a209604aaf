// Bands between the calls of a collective on several ranks.
import { counted } from '../../lib/format'
import { toAxis } from '../../lib/rankAxis'
import { isOfOtherRun } from '../../lib/rankSelection'
import { boxColors } from '../surface'
import { BAR, HEAD, rowTop } from '../timeline/layout'
import type { Piece } from '../timeline/model'
import { toX } from '../timeline/scene'
import { BUSY, COMMUNICATION } from './bars'
import { itemOf } from './hit'
import { SECTION } from './layout'
import { type Call, type Collective, collectiveOf, type RanksScene, type VisibleSection } from './scene'

export const LINKED = 120
export const COLORS = 5
/** The colour of the bands of all others. */
export const OTHER_RANKS = 'other'

/** A collective and its calls from top to bottom, each with the number of its section. */
export interface Link {
  collective: Collective
  /** Names the colour of the rank that came last. */
  kind: string
  ends: readonly { at: number; call: Call }[]
}

/** One end of a band: time of a call, and its y above and below the section. */
interface End {
  x0: number
  x1: number
  top: number
  bottom: number
}

type Band = [from: End, to: End]

export function hoveredCollective(scene: RanksScene): Collective | undefined {
  const { hover, sections } = scene
  const placed = sections.find(({ section }) => section.key === hover?.rank)?.section.placement
  return hover && placed ? collectiveOf(scene, hover.rank ?? '', hover.event, hover.start, placed) : undefined
}

/** The collective of the event under the pointer, else of the selected one. */
export function activeCollective(scene: RanksScene): Collective | undefined {
  const { selected, rank, event } = scene
  return hoveredCollective(scene) ?? (selected ? collectiveOf(scene, rank, event, selected.start) : undefined)
}

/** How many sections a collective links; ranks of another run do not count. */
export function linkedRanksText(sections: readonly Pick<VisibleSection, 'section' | 'scene'>[], calls: number): string {
  const own = sections.filter(({ section }) => !isOfOtherRun(section.key))
  const unread = own.filter(({ section, scene }) => !scene && !section.isFailed).length
  const on =
    own.length > calls
      ? `linked on ${calls} of the ranks on this timeline`
      : `linked on all ${own.length} ranks of this timeline`
  return unread > 0 ? `${on}, ${counted(unread, 'rank')} not loaded yet` : on
}

/** A rank that came last: at how many collectives, and by how much in all. */
interface LateRank {
  key: string
  kind: string
  count: number
  lateness: number
}

/**
 * Ranks that arrived last, largest total lateness first. The first ones have a colour each, by their own index if
 * free, so that colours are stable.
 */
export function lateRanks(keys: readonly string[], collectives: readonly Collective[]): LateRank[] {
  const place = new Map(keys.map((key, at) => [key, at]))
  const found = new Map<string, { key: string; at: number; count: number; lateness: number }>()
  for (const { last, lateness: late } of collectives) {
    const at = place.get(last)
    if (at === undefined) continue
    const { count, lateness } = found.get(last) ?? { count: 0, lateness: 0 }
    found.set(last, { key: last, at, count: count + 1, lateness: lateness + late })
  }
  const all = [...found.values()].sort((a, b) => b.lateness - a.lateness || a.at - b.at)
  const slots = slotsOf(all.slice(0, COLORS).map(({ at }) => at % COLORS))
  return all.map(({ key, count, lateness }, i) => ({
    key,
    kind: i < COLORS ? `last${slots[i]}` : OTHER_RANKS,
    count,
    lateness,
  }))
}

/** Gives each its wished slot if free, then fills the rest. */
function slotsOf(wishes: readonly number[]): number[] {
  const left = Array.from({ length: COLORS }, (_, slot) => slot).filter((slot) => !wishes.includes(slot))
  return wishes.map((wish, i) => (wishes.indexOf(wish) === i ? wish : (left.shift() ?? wish)))
}

/** Links, computed once for collectives and sections. */
export function collectiveLinks(sections: readonly VisibleSection[], collectives: readonly Collective[]): Link[] {
  const place = new Map(sections.map(({ section }, at) => [section.key, at]))
  const kinds = new Map(lateRanks([...place.keys()], collectives).map(({ key, kind }) => [key, kind]))
  return collectives.map((collective) => ({
    collective,
    kind: kinds.get(collective.last) ?? OTHER_RANKS,
    ends: collective.calls
      .flatMap((call) => {
        const at = place.get(call.rank)
        return at === undefined ? [] : [{ at, call }]
      })
      .sort((one, other) => one.at - other.at),
  }))
}

/** Bands, drawn first so that other items keep their colour. */
export function drawLinks(
  context: CanvasRenderingContext2D,
  scene: RanksScene,
  [first, last]: [number, number],
  pieces: readonly Map<number, Piece[]>[],
): void {
  const chosen = activeCollective(scene)
  const many = scene.links.length > LINKED
  within(context, scene)
  // One path per colour: thousands of paths are slow.
  const bands = new Map<string, Band[]>()
  for (const link of scene.links) {
    if (link.collective === chosen || many) continue
    const own = bands.get(link.kind) ?? []
    if (own.length === 0) bands.set(link.kind, own)
    bandsOf(scene, link, first, last, pieces, own)
  }
  for (const [kind, own] of bands) {
    const color = boxColors(kind, 1, scene.theme).fill
    fillBands(context, own, color, 0.18)
    drawEdges(context, own, color, 0.8, 1)
  }
  const link = linkOf(scene, chosen)
  if (link) {
    const own: Band[] = []
    bandsOf(scene, link, first, last, pieces, own)
    fillBands(context, own, boxColors(link.kind, 1, scene.theme).fill, 0.4)
  }
  context.restore()
}

/** The edges of the chosen collective's bands and its partners, over all else. */
export function drawActiveLink(
  context: CanvasRenderingContext2D,
  scene: RanksScene,
  [first, last]: [number, number],
  pieces: readonly Map<number, Piece[]>[],
): void {
  const link = linkOf(scene, activeCollective(scene))
  if (!link) return
  within(context, scene)
  const own: Band[] = []
  const ends = bandsOf(scene, link, first, last, pieces, own)
  drawEdges(context, own, boxColors(link.kind, 1, scene.theme).fill, 1, 1.5)
  for (const { at, end } of ends) if (at >= first && at < last) outline(context, scene, at, end)
  context.restore()
}

const linkOf = ({ links }: RanksScene, chosen: Collective | undefined) =>
  chosen && links.find(({ collective }) => collective === chosen)

function within(context: CanvasRenderingContext2D, { gutter, width, height }: RanksScene): void {
  context.save()
  context.beginPath()
  context.rect(gutter, HEAD, width - gutter, height - HEAD)
  context.clip()
}

/** Adds the bands of a link that are seen; gives the ends of those. */
function bandsOf(
  scene: RanksScene,
  { ends }: Link,
  first: number,
  last: number,
  pieces: readonly Map<number, Piece[]>[],
  bands: Band[],
): { at: number; end: End }[] {
  const found: { at: number; end: End }[] = []
  for (const [i, { at, call }] of ends.entries()) {
    // Beyond an edge only the nearest call has a band into view.
    if (at < first && (ends[i + 1]?.at ?? last) < first) continue
    const before = found.at(-1)
    if (before && before.at >= last) break
    const end = endOf(scene, at, call, pieces[at - first])
    if (before && isVisible(scene, before.end, end)) bands.push([before.end, end])
    found.push({ at, end })
  }
  return found
}

const isVisible = ({ gutter, width }: RanksScene, one: End, other: End) =>
  Math.max(one.x1, other.x1) >= gutter - 1 && Math.min(one.x0, other.x0) <= width + 1

function fillBands(context: CanvasRenderingContext2D, bands: readonly Band[], color: string, alpha: number): void {
  context.beginPath()
  for (const [from, to] of bands) {
    context.moveTo(from.x0, from.bottom)
    context.lineTo(Math.max(from.x1, from.x0 + 1), from.bottom)
    context.lineTo(Math.max(to.x1, to.x0 + 1), to.top)
    context.lineTo(to.x0, to.top)
    context.closePath()
  }
  context.fillStyle = color
  context.globalAlpha = alpha
  context.fill()
  context.globalAlpha = 1
}

function drawEdges(
  context: CanvasRenderingContext2D,
  bands: readonly Band[],
  color: string,
  alpha: number,
  width: number,
): void {
  context.globalAlpha = alpha
  context.strokeStyle = color
  context.lineWidth = width
  context.beginPath()
  for (const [from, to] of bands) {
    context.moveTo(from.x0, from.bottom)
    context.lineTo(to.x0, to.top)
    context.moveTo(from.x1, from.bottom)
    context.lineTo(to.x1, to.top)
  }
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

/** A call leaves upwards at its bar in the head, downwards at its event if drawn. */
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

function rowOf({ scene, isOpen }: VisibleSection, call: Call, pieces: Map<number, Piece[]>): number | undefined {
  if (!scene || !isOpen) return undefined
  const { model } = scene
  for (const [lane, { placed }] of scene.layout.lanes)
    for (const { tile, start, end } of pieces.get(model.lanes[lane].group) ?? []) {
      if (!tile || call.start < start || call.start >= end) continue
      for (let row = 0; row < placed.rows; row++)
        if (itemOf(tile, model.lineOf(lane, row), call) >= 0) return rowTop(placed, row)
    }
  return undefined
}
