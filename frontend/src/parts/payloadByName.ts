// A payload of a view by name, if it is of the kind that the page draws there.
import type { Payload, View } from '../api/payloads'

export function payloadByName<K extends Payload['kind']>(
  view: View,
  name: string,
  kind: K,
): Extract<Payload, { kind: K }> | null {
  const found = view.payloads[name]
  return found && found.kind === kind ? (found as Extract<Payload, { kind: K }>) : null
}
