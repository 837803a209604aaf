// Reports of visible sections, delayed while scrolling.

/** The page hears of them when the sight rests so long, and so often at least. */
const REST_MS = 120
const TELL_MS = 500

export class VisibleSections {
  private readonly tell: (keys: readonly string[]) => void
  private text = ''
  private timer = 0
  /** When the pending report was first due. */
  private since = 0

  constructor(tell: (keys: readonly string[]) => void) {
    this.tell = tell
  }

  /** Reports the first sections at once. */
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
