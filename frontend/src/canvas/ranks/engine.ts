// The engine of several ranks on one time axis. In one file: drawing and input share its state.

import { clamp } from '../../lib/axisTicks'
import type { KernelClasses } from '../../lib/kernelClasses'
import { fromAxis, toAxis } from '../../lib/rankAxis'
import type { Theme } from '../surface'
import { type ColorBy, Colors, NOTHING_HIDDEN, Strip } from '../timeline/colors'
import { INITIAL_SCENE, NO_OVERLAYS } from '../timeline/engine'
import { HEAD, layoutTracks, rowTop } from '../timeline/layout'
import type { Item, Spot, TimelineModel } from '../timeline/model'
import { type Arrow, arrowAt, matchByNumber, type Scene, type Step, toTime, visibleTracks } from '../timeline/scene'
import { type TimelineEvents, TimelineViewport } from '../timeline/timelineViewport'
import type { Range } from '../viewport'
import { COMMUNICATION } from './bars'
import { drawRanks } from './draw'
import { hitInHead, hitInTracks, spotsOf } from './hit'
import { nearbyRange, type PlacedSection, SECTION, sectionAt, stackSections, visibleRange } from './layout'
import { activeCollective, collectiveLinks } from './links'
import {
  type Collective,
  collectivesByCall,
  isEqualList,
  type RankSection,
  type RanksScene,
  rankView,
  type VisibleSection,
} from './scene'
import { isWorkLane, NO_PLACING, type Placing, trackId, tracksOf } from './tracks'

/** Positions of the sections, for the scroll bar. `layout` is a new object after each change. */
export interface SectionStack {
  layout: { sections: readonly VisibleSection[]; places: readonly PlacedSection[]; content: number; fixed: 0 }
  scroll: number
  gutter: number
  room: number
}

export interface RanksEvents extends TimelineEvents {
  onTracks(stack: SectionStack): void
  onSight(keys: readonly string[]): void
}

/** The selected event, with its rank and arrows. */
export interface RankSpot {
  rank: string
  event: number
  spot: Spot
  arrows: readonly Arrow[]
}

/** Interval of tile requests during a move; none are prefetched then. */
const ASK_MS = 60

export class RanksEngine extends TimelineViewport {
  protected readonly events: RanksEvents
  readonly scene: RanksScene
  private readonly bars = new Strip()
  private readonly strip = new Strip()
  private readonly sight: VisibleSections
  private placing = NO_PLACING
  private layout: SectionStack['layout'] = { sections: [], places: [], content: 0, fixed: 0 }
  private colorBy: ColorBy = 'kind'
  private classes: KernelClasses | null = null
  private hidden = NOTHING_HIDDEN
  private matches: ((name: string) => boolean) | null = null
  private chosen: RankSpot | null = null
  /** Its tracks were not there yet when it was brought into sight. */
  private isAwaited = false
  private asking = 0
  private wanted: { view: Range | null; scroll: number; at: number } = { view: null, scroll: 0, at: 0 }

  constructor(canvas: HTMLCanvasElement, theme: Theme, view: Range, events: RanksEvents, keysFrom?: readonly Window[]) {
    super(canvas, keysFrom)
    this.events = events
    this.sight = new VisibleSections((keys) => events.onSight(keys))
    const { arrows, marks, bookmarks } = NO_OVERLAYS
    this.scene = {
      model: { ...NO_PLACING.whole, head: NO_PLACING.busy },
      ...INITIAL_SCENE,
      view,
      theme,
      bookmarks,
      arrows,
      marks,
      steps: [],
      sections: [],
      places: [],
      content: 0,
      collectives: [],
      links: [],
      partners: new Map(),
      rank: '',
      event: -1,
    }
  }

  override destroy(): void {
    super.destroy()
    this.sight.destroy()
    window.clearTimeout(this.asking)
  }

  protected override onResize(): void {
    this.scroll(0)
  }

  get model(): Range {
    return this.scene.model
  }

  /** Keeps the top section in place when ranks are added, opened or closed. */
  setPlacing(placing: Placing): void {
    this.placing = placing
    const { scene } = this
    const before = new Map(scene.sections.map((one) => [one.section.key, one]))
    const [top] = visibleRange(scene.places, scene.scroll, 1)
    const held = scene.sections[top]?.section.key
    const away = scene.scroll - (scene.places[top]?.top ?? 0)
    scene.sections = placing.sections.map((section) => this.shown(section, before.get(section.key)))
    const { places, content } = stackSections(
      scene.sections.map(({ isOpen, scene }) => (isOpen && scene ? scene.layout.content : 0)),
    )
    scene.places = places
    scene.content = content
    this.layout = { sections: scene.sections, places, content, fixed: 0 }
    scene.model = { ...placing.whole, head: placing.busy }
    scene.links = collectiveLinks(scene.sections, scene.collectives)
    const now = scene.sections.findIndex(({ section }) => section.key === held)
    if (now > 0) scene.scroll = places[now].top + Math.min(away, places[now].height - 1)
    this.scroll(0)
    if (this.isAwaited && this.chosen) this.isAwaited = !this.bring(this.chosen.rank, this.chosen.spot)
  }

  private shown(section: RankSection, before: VisibleSection | undefined): VisibleSection {
    const isOpen = this.placing.open.has(section.key)
    const { model } = section
    if (!model) return { section, isOpen, scene: null, overview: [], drawn: null, requested: null }
    const isKnown = before?.scene?.model === model
    const scene = isKnown && before.scene ? before.scene : this.sceneOf(model)
    scene.layout = tracksOf(section.key, model, this.placing)
    const devices = model.lanes.flatMap((one, lane) => (isWorkLane(one) ? [lane] : []))
    return {
      section,
      isOpen,
      scene,
      overview: devices.length > 0 ? devices : model.lanes.map((_, lane) => lane),
      drawn: isKnown ? before.drawn : null,
      requested: isKnown ? before.requested : null,
    }
  }

  private sceneOf(model: TimelineModel): Scene {
    const { view } = this.scene
    return {
      ...this.scene,
      ...NO_OVERLAYS,
      model,
      view,
      level: 0,
      layout: layoutTracks([], [], 0, new Set(), 0),
      colors: this.colorsOf(model),
      strip: this.strip,
      match: matchByNumber(this.matches, model.store.names.list),
      selected: null,
      picked: [],
      range: null,
    }
  }

  setTheme(theme: Theme): void {
    this.scene.theme = theme
    this.setColors(this.colorBy, this.classes, this.hidden)
  }

  setColors(by: ColorBy, classes: KernelClasses | null, hidden: ReadonlySet<string>): void {
    this.colorBy = by
    this.hidden = hidden
    this.classes = classes
    for (const { scene } of this.scene.sections) if (scene) scene.colors = this.colorsOf(scene.model)
    this.redraw()
  }

  private colorsOf({ head, store }: TimelineModel): Colors {
    return new Colors(this.scene.theme, this.colorBy, head, store, this.classes, this.hidden)
  }

  setSearch(matches: ((name: string) => boolean) | null): void {
    this.matches = matches
    for (const { scene } of this.scene.sections)
      if (scene) scene.match = matchByNumber(matches, scene.model.store.names.list)
    this.redraw()
  }

  setCollectives(collectives: readonly Collective[]): void {
    this.scene.collectives = collectives
    this.scene.links = collectiveLinks(this.scene.sections, collectives)
    this.scene.partners = collectivesByCall(collectives)
    this.redraw()
  }

  setSelected(chosen: RankSpot | null): void {
    const isNew = chosen && (this.chosen?.rank !== chosen.rank || this.chosen.spot.start !== chosen.spot.start)
    this.chosen = chosen
    this.scene.selected = chosen?.spot ?? null
    this.scene.rank = chosen?.rank ?? ''
    this.scene.event = chosen?.event ?? -1
    if (isNew) this.isAwaited = !this.bring(chosen.rank, chosen.spot)
    if (!chosen) this.isAwaited = false
    this.redraw()
  }

  setNotes(steps: readonly Step[], bookmarks: RanksScene['bookmarks']): void {
    this.scene.steps = steps
    this.scene.bookmarks = bookmarks
    this.redraw()
  }

  /** Scrolls to an event of a section, to the head of one that is closed. Gives whether nothing more is to be waited for. */
  private bring(rank: string, spot: Spot): boolean {
    const { scene } = this
    const at = scene.sections.findIndex(({ section }) => section.key === rank)
    if (at < 0) return true
    const shown = scene.sections[at]
    const placed = shown.isOpen ? shown.scene?.layout.lanes.get(spot.lane)?.placed : undefined
    const inside = placed ? SECTION + rowTop(placed, Math.min(spot.row, placed.rows - 1)) : 0
    const top = scene.places[at].top + inside
    const room = this.canvas.clientHeight - HEAD
    if (top < scene.scroll || top + SECTION > scene.scroll + room) this.scroll(top - room / 3 - scene.scroll)
    return shown.scene !== null
  }

  /** A scroll by the user ends the scroll to the selection. */
  scrollBy(pixels: number): void {
    this.isAwaited = false
    this.scroll(pixels)
  }

  scrollTo(pixels: number): void {
    this.scrollBy(pixels - this.scene.scroll)
  }

  private scroll(pixels: number): void {
    const most = Math.max(0, this.scene.content - (this.canvas.clientHeight - HEAD))
    this.scene.scroll = clamp(this.scene.scroll + pixels, 0, most)
    this.redraw()
  }

  /** Gives visible sections the window in their own time. */
  protected override measure(width: number, height: number): boolean {
    const { scene } = this
    if (!super.measure(width, height)) return false
    const [first, last] = visibleRange(scene.places, scene.scroll, height - HEAD)
    for (let at = first; at < last; at++) {
      const { section, scene: own } = scene.sections[at]
      if (!own) continue
      own.view = rankView(scene, section.placement)
      own.level = own.model.levelFor((own.view.end - own.view.start) / this.plot.width)
      own.scroll = scene.scroll - scene.places[at].top - SECTION
      own.gutter = scene.gutter
      own.width = width
      own.height = height
      own.theme = scene.theme
      own.cursor = null
    }
    return true
  }

  protected draw(context: CanvasRenderingContext2D): void {
    this.standOut()
    drawRanks(context, this.scene, this.bars)
  }

  /** Highlights the hovered event with its partners, and the selected one with its arrows. */
  private standOut(): void {
    const { scene, chosen } = this
    const { hover } = scene
    const partners = activeCollective(scene)?.calls ?? []
    const [first, last] = visibleRange(scene.places, scene.scroll, scene.height - HEAD)
    for (const { section, scene: own } of scene.sections.slice(first, last)) {
      if (!own) continue
      const { placement } = section
      const isHovered = hover?.rank === section.key
      own.hover = isHovered ? { ...hover, start: Math.round(fromAxis(placement, hover.start)) } : null
      const isChosen = chosen?.rank === section.key
      own.selected = isChosen ? chosen.spot : null
      own.arrows = isChosen ? chosen.arrows : []
      const call = partners.find(({ rank }) => rank === section.key)
      own.hits = call ? spotsOf(own, call) : []
    }
  }

  protected override afterDraw(): void {
    const { scene, layout } = this
    const room = scene.height - HEAD
    this.events.onTracks({ layout, scroll: scene.scroll, gutter: scene.gutter, room })
    const [first, last] = visibleRange(scene.places, scene.scroll, room)
    const now = performance.now()
    const isMoving = scene.view !== this.wanted.view || scene.scroll !== this.wanted.scroll
    if (isMoving) this.asking ||= window.setTimeout(() => this.askLate(), ASK_MS)
    if (!isMoving || now >= this.wanted.at + ASK_MS) {
      this.wanted = { view: scene.view, scroll: scene.scroll, at: now }
      scene.sections.forEach((shown, at) => {
        if (at < first || at >= last) restTiles(shown)
      })
      for (let at = last - 1; at >= first; at--) wantTiles(scene.sections[at], isMoving ? 0 : last - first)
    }
    this.watch(room)
  }

  private askLate(): void {
    this.asking = 0
    this.redraw()
  }

  private watch(room: number): void {
    const { scene } = this
    const [from, to] = nearbyRange(scene.places, scene.scroll, room)
    const keys = scene.sections.slice(from, to).map(({ section }) => section.key)
    this.sight.see(keys)
  }

  private at(y: number): { at: number; inside: number } | null {
    const below = y - HEAD + this.scene.scroll
    const at = y < HEAD ? -1 : sectionAt(this.scene.places, below)
    return at < 0 ? null : { at, inside: below - this.scene.places[at].top }
  }

  protected titleAt(y: number): string | null {
    const found = this.at(y)
    if (!found) return null
    const { section, scene } = this.scene.sections[found.at]
    const inside = found.inside - SECTION
    if (inside < 0) return section.key
    const placed = scene?.layout.rest.find(({ top, height }) => inside >= top && inside < top + height)
    return placed ? trackId(section.key, placed.track.id) : null
  }

  protected itemAt(x: number, y: number): Item | null {
    const found = x < this.scene.gutter ? null : this.at(y)
    if (!found) return null
    const { section, scene: own, overview } = this.scene.sections[found.at]
    if (!own) return null
    const time = toTime(own, x)
    const slack = ((own.view.end - own.view.start) / (own.width - own.gutter)) * 3
    const item =
      found.inside < SECTION
        ? hitInHead(own, overview, found.inside >= COMMUNICATION, time, slack)
        : hitInTracks(own, found.inside - SECTION, time, slack)
    if (!item || own.colors.hidesItem(item)) return null
    return { ...item, start: toAxis(section.placement, item.start), rank: section.key }
  }

  protected arrowAt(x: number, y: number): Arrow | null {
    const own = this.scene.sections.find(({ section }) => section.key === this.chosen?.rank)?.scene
    return own ? arrowAt(own, x, y) : null
  }

  protected neighbour(key: string): Item | null {
    const { chosen } = this
    const shown = this.scene.sections.find(({ section }) => section.key === chosen?.rank)
    if (!chosen || !shown?.scene) return null
    const { level, view, model } = shown.scene
    const item = model.neighbour(level, view, chosen.spot, key)
    return item && { ...item, start: toAxis(shown.section.placement, item.start), rank: chosen.rank }
  }
}

/** Prefetched tiles: limit per section and in total. */
const AHEAD = 24
const AHEAD_ALL = 96

/** `still`: number of visible sections at rest; 0 while moving, which disables prefetching. */
function wantTiles(shown: VisibleSection, still: number): void {
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
function restTiles(shown: VisibleSection): void {
  if (!shown.requested) return
  shown.requested = null
  shown.scene?.model.store.rest()
}

/** The page gets the visible range after this rest, and at least this often. */
const REST_MS = 120
const TELL_MS = 500

class VisibleSections {
  private readonly tell: (keys: readonly string[]) => void
  private text = ''
  private timer = 0
  /** When the pending report was first due. */
  private since = 0

  constructor(tell: (keys: readonly string[]) => void) {
    this.tell = tell
  }

  see(keys: readonly string[]): void {
    const text = keys.join(' ')
    if (text === this.text) return
    const isFirst = this.text === ''
    this.text = text
    if (isFirst) {
      this.tell(keys)
      return
    }
    const now = performance.now()
    if (this.timer === 0) this.since = now
    window.clearTimeout(this.timer)
    this.timer = window.setTimeout(
      () => {
        this.timer = 0
        this.tell(keys)
      },
      Math.max(0, Math.min(REST_MS, this.since + TELL_MS - now)),
    )
  }

  destroy(): void {
    window.clearTimeout(this.timer)
  }
}
