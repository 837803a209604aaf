// Whether the page is being printed.

let isOn = false
const listeners = new Set<() => void>()

function change(next: boolean): void {
  isOn = next
  for (const listener of [...listeners]) listener()
}

if (typeof window !== 'undefined') {
  window.addEventListener('beforeprint', () => change(true))
  window.addEventListener('afterprint', () => change(false))
}

export const isPrinting = () => isOn

export function onPrinting(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
