// A view's payload by name and kind.
import type { Payload, View } from '../api/payloads'

export function payloadByName<K extends Payload['kind']>(
  view: View,
  name: string,
  kind: K,
): Extract<Payload, { kind: K }> | null {
  const found = view.payloads[name]
  return found && found.kind === kind ? (found as Extract<Payload, { kind: K }>) : null
}
