// A view's payload by name and kind.
import type { Figure, Payload, Scalar, View } from '../api/payloads'

export function payloadByName<K extends Payload['kind']>(
  view: View,
  name: string,
  kind: K,
): Extract<Payload, { kind: K }> | null {
  const found = view.payloads[name]
  return found && found.kind === kind ? (found as Extract<Payload, { kind: K }>) : null
}

/** A payload of figures, or a notice. */
type Facts = { readonly figures: readonly Figure[] } | null | undefined

export const figureOf = (figures: Facts, key: string | null): Figure | undefined =>
  figures?.figures.find(({ metric }) => metric.key === key)

export const figureValue = (figures: Facts, key: string): Scalar => figureOf(figures, key)?.value ?? null

export function numberOf(figures: Facts, key: string): number | null {
  const value = figureValue(figures, key)
  return typeof value === 'number' ? value : null
}
