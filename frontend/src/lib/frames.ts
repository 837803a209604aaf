// Call stacks: `path(line): function`, separated by ";" or line breaks.

export interface CodeFrame {
  text: string
  path: string | null
  line: number | null
  name: string
}

export function parseFrame(text: string): CodeFrame {
  const trimmed = text.trim()
  const match = /^(.*?)\((\d+)\)(?::\s*(.*))?$/.exec(trimmed)
  if (!match || match[1] === '') return { text: trimmed, path: null, line: null, name: trimmed }
  return { text: trimmed, path: match[1], line: Number(match[2]), name: match[3] ?? '' }
}

export function parseStack(stack: string): CodeFrame[] {
  return stack
    .split(/;|\r?\n/)
    .filter((part) => part.trim() !== '')
    .map(parseFrame)
}

/** Characters of the shortest part of a file name with its line. */
const LEAST = 8
/** What goes before the last two folders of an absolute path. */
const FAR = /^(?:[A-Za-z]:)?[\\/](?:[^(\\/]+[\\/])+(?=(?:[^(\\/]+[\\/]){2}[^(\\/]+\(\d+\): )/

/** A frame without its package folder, shortened to `length`: first other folders go, then the function. */
export function shortFrame(text: string, length = Number.POSITIVE_INFINITY): string {
  let short = text.replace(/^[^(]*[\\/](?:(?:site|dist)-packages|lib[\\/]python3[.\d]*)[\\/]/, '').replace(FAR, '')
  const outermost = /^[^(\\/]*[\\/]/
  while (short.length > length && outermost.test(short)) short = short.replace(outermost, '')
  const line = /^[^(]+\(\d+\)(?=: )/.exec(short)?.[0]
  if (!line || short.length <= length) return short
  if (line.length <= length) return line
  return length < LEAST ? short : `…${line.slice(1 - length)}`
}

/** A path that an editor can open: frames of the interpreter itself (`<built-in ...>`) cannot. */
export const canOpen = (frame: CodeFrame) => frame.path !== null && frame.line !== null && !frame.path.startsWith('<')

export const DEFAULT_EDITOR = 'vscode://file/{path}:{line}'

/** The address that opens a frame in the reader's editor; null when the template is no address of an editor. */
export function editorUrl(template: string, frame: CodeFrame): string | null {
  if (!canOpen(frame) || frame.path === null) return null
  if (!/^[a-z][a-z0-9+.-]*:/i.test(template) || /^(javascript|data|vbscript|blob):/i.test(template)) return null
  const path = frame.path.replaceAll('\\', '/').split('/').map(encodeURIComponent).join('/').replace(/^\//, '')
  const absolute = frame.path.startsWith('/') ? `/${path}` : path
  return template
    .replace('file/{path}', () => `file${absolute.startsWith('/') ? '' : '/'}${absolute}`)
    .replace('{path}', () => absolute)
    .replace('{line}', String(frame.line))
}
