// Who gets a key: what a person types into a field is never a shortcut.

const FIELDS = /^(text|search|number|email|url|tel|password|date|time|datetime-local|month|week)$/

/** Whether keys go into text (or into a list that finds its entries by letters). */
export function isTyping(target: EventTarget | null): boolean {
  // An element of another window is no instance of this window's classes.
  const element = target as Partial<HTMLInputElement> | null
  if (element?.isContentEditable) return true
  const tag = element?.tagName ?? ''
  return tag === 'TEXTAREA' || tag === 'SELECT' || (tag === 'INPUT' && FIELDS.test(element?.type ?? 'text'))
}
