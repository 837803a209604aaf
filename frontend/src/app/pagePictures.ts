// The charts of the page as PNG: title, picture and colour key on the page's background.

export interface PagePicture {
  title: string
  /** Null if the browser cannot draw it. */
  png: (caption: string) => Promise<Blob | null>
}

const LEAST_PX = 24
const [LEAST_WIDE_PX, MOST_WIDE_PX] = [420, 400]
const PAD_PX = 12
const HEAD_PX = 46
const KEY_PX = 20
const SWATCH_PX = 10
const FALLBACK = 'Chart'

/** All charts in sight or below, in the order of the page. */
export function pagePictures(page: ParentNode | null = document.getElementById('main')): PagePicture[] {
  const found = [...(page?.querySelectorAll<HTMLElement | SVGElement>(PICTURES) ?? [])].filter(
    (node) => !node.parentElement?.closest(PICTURES) && isLarge(node),
  )
  const titles = found.map(titleOf)
  return found.map((node, i) => {
    const before = titles.slice(0, i).filter((title) => title === titles[i]).length
    const title = before ? `${titles[i]} (${before + 1})` : titles[i]
    return { title, png: (caption) => composed(node, title, caption) }
  })
}

const PICTURES = '[data-testid=chart], canvas, svg[role=img]'

function isLarge(node: Element): boolean {
  const { width, height } = node.getBoundingClientRect()
  return width >= LEAST_PX && height >= LEAST_PX
}

const titleOf = (node: Element) =>
  node.closest('section[aria-label]')?.getAttribute('aria-label') ||
  node.getAttribute('aria-label')?.split(/[:.]/)[0] ||
  FALLBACK

/** The colour key beside the chart: what has a swatch in the same card. */
function keysOf(node: Element): [string, string][] {
  const own = node.getAttribute('data-keys')
  if (own) return (JSON.parse(own) as [string, string][]).map(([text, fill]) => [fill, text])
  const card = node.closest('section') ?? node.parentElement
  return [...(card?.querySelectorAll('li') ?? [])].flatMap((item): [string, string][] => {
    const swatch = item.querySelector('i')
    const text = [...item.childNodes].flatMap((child) => child.textContent?.trim() || []).join('  ')
    return swatch && text ? [[getComputedStyle(swatch).backgroundColor, text]] : []
  })
}

async function composed(node: HTMLElement | SVGElement, title: string, caption: string): Promise<Blob | null> {
  const ratio = window.devicePixelRatio || 1
  const box = node.getBoundingClientRect()
  const look = getComputedStyle(document.documentElement)
  const colour = (name: string) => look.getPropertyValue(name).trim()
  const font = getComputedStyle(document.body).fontFamily
  const keys = keysOf(node)
  const canvas = document.createElement('canvas')
  const context = canvas.getContext('2d')
  if (!context) return null
  context.font = `12px ${font}`
  const widest = Math.max(LEAST_WIDE_PX, box.width, ...keys.map(([, text]) => context.measureText(text).width + 34))
  const width = Math.min(widest, MOST_WIDE_PX + box.width) + 2 * PAD_PX
  const rows = wrapped(keys, (text) => context.measureText(text).width, width - 2 * PAD_PX)
  const height = HEAD_PX + box.height + rows.length * KEY_PX + PAD_PX
  canvas.width = Math.round(width * ratio)
  canvas.height = Math.round(height * ratio)
  context.scale(ratio, ratio)
  context.fillStyle = colour('--tt-panel')
  context.fillRect(0, 0, width, height)
  context.textBaseline = 'middle'
  context.fillStyle = colour('--tt-ink')
  context.font = `600 14px ${font}`
  context.fillText(title, PAD_PX, 16, width - 2 * PAD_PX)
  context.fillStyle = colour('--tt-mute')
  context.font = `12px ${font}`
  context.fillText(caption, PAD_PX, 34, width - 2 * PAD_PX)
  const layers = node.matches('canvas') ? [node as HTMLCanvasElement] : [...node.querySelectorAll('canvas')]
  for (const layer of node instanceof SVGElement ? [await rastered(node, ratio)] : layers) {
    const place = layer instanceof HTMLCanvasElement ? layer.getBoundingClientRect() : box
    if (place.width && place.height)
      context.drawImage(layer, PAD_PX + place.left - box.left, HEAD_PX + place.top - box.top, place.width, place.height)
  }
  rows.forEach((row, line) => {
    for (const { x, text, fill } of row) {
      const y = HEAD_PX + box.height + line * KEY_PX + KEY_PX / 2
      context.fillStyle = fill
      context.fillRect(PAD_PX + x, y - SWATCH_PX / 2, SWATCH_PX, SWATCH_PX)
      context.fillStyle = colour('--tt-ink')
      context.fillText(text, PAD_PX + x + SWATCH_PX + 6, y, width - 2 * PAD_PX)
    }
  })
  return new Promise((done) => canvas.toBlob(done, 'image/png'))
}

interface PlacedKey {
  x: number
  text: string
  fill: string
}

/** Keys in lines of at most `room` pixels. */
function wrapped(keys: readonly [string, string][], widthOf: (text: string) => number, room: number) {
  const rows: PlacedKey[][] = []
  let x = room
  for (const [fill, text] of keys) {
    const width = SWATCH_PX + 6 + widthOf(text) + 18
    if (x + width > room) {
      rows.push([])
      x = 0
    }
    rows[rows.length - 1].push({ x, text, fill })
    x += width
  }
  return rows
}

const COPIED = ['fill', 'stroke', 'stroke-width', 'font', 'text-anchor', 'opacity'] as const

/** An image of an SVG element with the styles of the page. */
async function rastered(svg: SVGElement, ratio: number): Promise<HTMLImageElement> {
  const copy = svg.cloneNode(true) as SVGElement
  const parts = [...svg.querySelectorAll<SVGElement>('*')]
  const copies = [...copy.querySelectorAll<SVGElement>('*')]
  parts.forEach((part, i) => {
    const style = getComputedStyle(part)
    for (const key of COPIED) copies[i].style.setProperty(key, style.getPropertyValue(key))
  })
  const { width, height } = svg.getBoundingClientRect()
  copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg')
  copy.setAttribute('width', String(width * ratio))
  copy.setAttribute('height', String(height * ratio))
  const image = new Image()
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`
  await image.decode()
  return image
}
