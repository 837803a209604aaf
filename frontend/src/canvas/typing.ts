// Whether a key press goes to a text field.

const FIELDS = /^(text|search|number|email|url|tel|password|date|time|datetime-local|month|week)$/

/** Whether keys go into text (or into a list that finds its entries by letters). */
export function isTyping(target: EventTarget | null): boolean {
  // Elements of another window are no instances of this window's classes.
  const element = target as Partial<HTMLInputElement> | null
  if (element?.isContentEditable) return true
  const tag = element?.tagName ?? ''
  return tag === 'TEXTAREA' || tag === 'SELECT' || (tag === 'INPUT' && FIELDS.test(element?.type ?? 'text'))
}
