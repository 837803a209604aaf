import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { HandoverError, handOver, type Opener, PATIENCE_MS, type Tab } from './perfetto'

const ADDRESS = 'http://localhost:10000/ui/'
const ORIGIN = 'http://localhost:10000'

class FakeTab implements Tab {
  closed = false
  /** Steps until it has left the empty page. */
  blank = 2
  readonly sent: [unknown, string][] = []
  get location(): { href: string } {
    if (this.blank-- > 0) return { href: 'about:blank' }
    throw new DOMException('cross-origin', 'SecurityError')
  }
  postMessage(message: unknown, origin: string): void {
    this.sent.push([message, origin])
  }
}

class FakePage implements Opener {
  readonly listeners = new Set<(event: MessageEvent) => void>()
  readonly opened: string[] = []
  readonly tab: FakeTab | null
  constructor(tab: FakeTab | null) {
    this.tab = tab
  }
  open(url: string): Tab | null {
    this.opened.push(url)
    return this.tab
  }
  addEventListener(_: 'message', listener: (event: MessageEvent) => void): void {
    this.listeners.add(listener)
  }
  removeEventListener(_: 'message', listener: (event: MessageEvent) => void): void {
    this.listeners.delete(listener)
  }
  say(data: unknown, source: unknown = this.tab, origin = ORIGIN): void {
    for (const listener of [...this.listeners]) listener({ data, source, origin } as MessageEvent)
  }
}

const buffer = new Uint8Array([1, 2, 3]).buffer
const trace = (download: (signal: AbortSignal) => Promise<ArrayBuffer> = () => Promise.resolve(buffer)) => ({
  title: 'run',
  fileName: 'run.json.gz',
  download,
})
/** The problem that it ends with; null when it does not. */
const outcome = (done: Promise<void>) =>
  done.then(
    () => null,
    (error) => (error instanceof HandoverError ? error.problem.what : error),
  )

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

it('asks until it is answered, then hands the trace over, to that origin alone', async () => {
  const tab = new FakeTab()
  const page = new FakePage(tab)
  const done = outcome(handOver(page, ADDRESS, trace()))
  expect(page.opened).toEqual([ADDRESS])
  await vi.advanceTimersByTimeAsync(250)
  expect(tab.sent).toEqual([])
  await vi.advanceTimersByTimeAsync(200)
  expect(tab.sent).toEqual([
    ['PING', ORIGIN],
    ['PING', ORIGIN],
  ])
  page.say('PONG')
  expect(await done).toBe(null)
  expect(tab.sent.at(-1)).toEqual([{ perfetto: { buffer, title: 'run', fileName: 'run.json.gz' } }, ORIGIN])
  await vi.advanceTimersByTimeAsync(PATIENCE_MS)
  expect(tab.sent.length).toBe(3)
  expect(page.listeners.size).toBe(0)
})

it('waits for the download as well', async () => {
  const tab = new FakeTab()
  const page = new FakePage(tab)
  let arrive = (_: ArrayBuffer) => {}
  const done = outcome(
    handOver(
      page,
      ADDRESS,
      trace(() => new Promise((resolve) => (arrive = resolve))),
    ),
  )
  page.say('PONG')
  await vi.advanceTimersByTimeAsync(3 * PATIENCE_MS)
  expect(tab.sent).toEqual([])
  arrive(buffer)
  expect(await done).toBe(null)
  expect(tab.sent.length).toBe(1)
})

it('believes neither another window nor another origin nor another word', async () => {
  const tab = new FakeTab()
  const page = new FakePage(tab)
  const done = outcome(handOver(page, ADDRESS, trace()))
  page.say('PONG', new FakeTab())
  page.say('PONG', tab, 'https://elsewhere.example')
  page.say({ PONG: 1 })
  await vi.advanceTimersByTimeAsync(PATIENCE_MS)
  expect(await done).toBe('Perfetto did not answer within 20 s.')
  expect(tab.sent.every(([message]) => message === 'PING')).toBe(true)
  expect(page.listeners.size).toBe(0)
})

it('downloads nothing when no tab opens', async () => {
  const download = vi.fn(() => Promise.resolve(buffer))
  expect(await outcome(handOver(new FakePage(null), ADDRESS, trace(download)))).toContain('blocked the new tab')
  expect(download).not.toHaveBeenCalled()
})

it('says that the tab was closed, and ends the download', async () => {
  const tab = new FakeTab()
  let signal: AbortSignal | null = null
  const page = new FakePage(tab)
  const never = (given: AbortSignal) => {
    signal = given
    return new Promise<ArrayBuffer>(() => {})
  }
  const done = outcome(handOver(page, ADDRESS, trace(never)))
  tab.closed = true
  await vi.advanceTimersByTimeAsync(200)
  expect(await done).toContain('was closed')
  expect((signal as AbortSignal | null)?.aborted).toBe(true)
})

it('passes on why the download failed, and stops asking', async () => {
  const tab = new FakeTab()
  const page = new FakePage(tab)
  const failed = new Error('502')
  expect(
    await outcome(
      handOver(
        page,
        ADDRESS,
        trace(() => Promise.reject(failed)),
      ),
    ),
  ).toBe(failed)
  await vi.advanceTimersByTimeAsync(PATIENCE_MS)
  expect(tab.sent).toEqual([])
  expect(page.listeners.size).toBe(0)
})
