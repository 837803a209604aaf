// CPU and GPU (or NPU) instead of host and device, in titles and definitions.
import type { Metric, Table, Tree, View } from '../api/payloads'

let word = 'GPU'

/** Sets the word for the devices of the open profile: GPU, NPU or Device. */
export function setDeviceWord(next: string): void {
  word = next
}

export const deviceWord = (): string => word

/** A text of the server in the words of the open profile. */
export const inWords = (text: string): string =>
  text
    .replace(/\b[Hh]ost\b/g, 'CPU')
    .replace(/\bDevice\b/g, word)
    .replace(/\bdevice\b/g, word === 'Device' ? 'device' : word)
    .replace(/\bdevices\b/g, word === 'Device' ? 'devices' : `${word}s`)

/** A title within a sentence: `mean`, but `GPU total` and `P95`. */
export const inSentence = (title: string): string =>
  /^[A-Z][A-Z0-9]/.test(title) ? title : `${title.slice(0, 1).toLowerCase()}${title.slice(1)}`

const named = (metric: Metric): Metric => ({
  ...metric,
  title: inWords(metric.title),
  definition: inWords(metric.definition),
})

const columnsInWords = <Of extends Table | Tree>(payload: Of): Of => ({
  ...payload,
  columns: payload.columns.map((column) => ({ ...column, metric: named(column.metric) })),
})

export const tableInWords = (table: Table): Table => columnsInWords(table)

type Payload = View['payloads'][string]

function payloadInWords(payload: Payload): Payload {
  if (payload.kind === 'table' || payload.kind === 'tree') return columnsInWords(payload)
  if (payload.kind === 'figures')
    return {
      ...payload,
      title: inWords(payload.title),
      figures: payload.figures.map((figure) => ({ ...figure, metric: named(figure.metric) })),
    }
  if (payload.kind === 'breakdown')
    return { ...payload, title: inWords(payload.title), subtitle: inWords(payload.subtitle) }
  if (payload.kind === 'series')
    return { ...payload, title: inWords(payload.title), subtitle: inWords(payload.subtitle) }
  return payload
}

export const viewInWords = (view: View): View => ({
  ...view,
  payloads: Object.fromEntries(Object.entries(view.payloads).map(([name, payload]) => [name, payloadInWords(payload)])),
})
