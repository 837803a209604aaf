// Transfer of a trace to a Perfetto tab.
import type { Problem } from '../api/payloads'

export const PATIENCE_MS = 20_000
const PING_MS = 100

export class HandoverError extends Error {
  readonly problem: Problem

  constructor(problem: Problem) {
    super(problem.what)
    this.problem = problem
  }
}

/** The part of a window that is used of the opened tab. */
export interface Tab {
  readonly closed: boolean
  readonly location: { readonly href: string }
  postMessage(message: unknown, origin: string, transfer?: Transferable[]): void
}

/** The part of a window that is used of our own page. */
export interface Opener {
  open(url: string, target: string): Tab | null
  addEventListener(type: 'message', listener: (event: MessageEvent) => void): void
  removeEventListener(type: 'message', listener: (event: MessageEvent) => void): void
}

/** Call it in a click handler, or browsers block the tab. The download starts once the tab answers. */
export async function handOver(
  page: Opener,
  address: string,
  trace: { title: string; fileName: string; download: (signal: AbortSignal) => Promise<ArrayBuffer> },
): Promise<void> {
  const { origin } = new URL(address)
  const tab = page.open(address, '_blank')
  if (!tab)
    throw new HandoverError({
      what: 'The browser blocked the new tab.',
      where: origin,
      do: 'Allow pop-ups and click again, or download the trace and drop it into Perfetto.',
    })
  const abort = new AbortController()
  try {
    const [buffer] = await Promise.all([trace.download(abort.signal), answered(page, tab, origin, abort.signal)])
    if (tab.closed) throw closedError(origin)
    tab.postMessage({ perfetto: { buffer, title: trace.title, fileName: trace.fileName } }, origin, [buffer])
  } finally {
    abort.abort()
  }
}

const closedError = (origin: string) =>
  new HandoverError({
    what: 'The Perfetto tab was closed before the trace arrived.',
    where: origin,
    do: 'Click again and keep the tab open, or download the trace and drop it into Perfetto.',
  })

/** Resolves when the tab answers. Messages before it listens are lost, so they are repeated. */
function answered(page: Opener, tab: Tab, origin: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearInterval(pings)
      clearTimeout(patience)
      page.removeEventListener('message', hear)
      signal.removeEventListener('abort', end)
    }
    const hear = (event: MessageEvent) => {
      if (event.source !== tab || event.origin !== origin || event.data !== 'PONG') return
      end()
      resolve()
    }
    const pings = setInterval(() => {
      if (tab.closed) {
        end()
        reject(closedError(origin))
      } else if (isThere(tab)) tab.postMessage('PING', origin)
    }, PING_MS)
    const patience = setTimeout(() => {
      end()
      reject(
        new HandoverError({
          what: `Perfetto did not answer within ${PATIENCE_MS / 1000} s.`,
          where: origin,
          do: 'Check that the Perfetto tab has loaded, then click again. Or download the trace and drop it into Perfetto.',
        }),
      )
    }, PATIENCE_MS)
    page.addEventListener('message', hear)
    signal.addEventListener('abort', end)
  })
}

/** Whether the tab has left its initial blank page, which rejects messages. */
function isThere(tab: Tab): boolean {
  try {
    return tab.location.href !== 'about:blank'
  } catch {
    // Another origin: its address is not readable.
    return true
  }
}
