// A canvas picture without a window: hover, click and keys through the viewport, a tooltip, and a spoken selection.
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { type Drag, type Point, Viewport } from '../canvas/viewport'
import { FloatingTooltip } from './floatingTooltip'
import textCss from './text.module.css'

interface PictureProps<Hit> {
  className?: string
  height: number
  label: string
  /** The selection, for screen readers. */
  spoken: string | null
  /** The data that hits belong to: the tooltip disappears when it changes. */
  subject: object
  draw: (context: CanvasRenderingContext2D, width: number, hover: Hit | null) => void
  hit: (point: Point) => Hit | null
  onClick: (hit: Hit | null) => void
  /** False if the key has no effect. */
  onKey: (key: string) => boolean
  onDoubleClick?: () => void
  startDrag?: (from: Point) => Drag
  tip: (hit: Hit) => ReactNode
  isWide?: boolean
}

class PictureViewport<Hit> extends Viewport<Hit> {
  constructor(
    canvas: HTMLCanvasElement,
    private readonly props: { readonly current: PictureProps<Hit> },
    protected readonly onHover: (hit: Hit | null, at: Point) => void,
  ) {
    super(canvas)
  }

  protected hit(point: Point): Hit | null {
    return this.props.current.hit(point)
  }

  protected draw(context: CanvasRenderingContext2D, width: number): void {
    this.props.current.draw(context, width, this.hovered)
  }

  protected onClick(point: Point): void {
    this.props.current.onClick(this.hit(point))
  }

  protected onKey(key: string): boolean {
    if (!this.props.current.onKey(key)) return false
    this.forget()
    return true
  }

  protected override onDoubleClick(): void {
    this.props.current.onDoubleClick?.()
  }

  protected override startDrag(from: Point): Drag | null {
    return this.props.current.startDrag?.(from) ?? null
  }
}

export function Picture<Hit>(props: PictureProps<Hit>) {
  const { className, height, label, spoken, subject, tip, isWide } = props
  const canvas = useRef<HTMLCanvasElement>(null)
  const viewport = useRef<PictureViewport<Hit> | null>(null)
  const [hover, setHover] = useState<{ hit: Hit; at: Point; subject: object } | null>(null)
  const latest = useRef(props)
  latest.current = props
  useEffect(() => {
    if (!canvas.current) return
    const made = new PictureViewport(canvas.current, latest, (hit, at) =>
      setHover(hit === null ? null : { hit, at, subject: latest.current.subject }),
    )
    viewport.current = made
    return () => made.destroy()
  }, [])
  useEffect(() => viewport.current?.redraw())
  return (
    <>
      <canvas
        ref={canvas}
        className={className}
        style={{ width: '100%', height }}
        tabIndex={0}
        role="application"
        aria-label={label}
      />
      <span className={textCss.sr} role="status">
        {spoken}
      </span>
      {hover?.subject === subject && (
        <FloatingTooltip x={hover.at.x} y={hover.at.y} wide={isWide}>
          {tip(hover.hit)}
        </FloatingTooltip>
      )}
    </>
  )
}
