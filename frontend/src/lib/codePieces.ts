// Options, calls and dotted names within a sentence.

const CALL = /[A-Za-z_][\w.]*\((?:[^()]|\([^()]*\))*\)/
const OPTION = /\b[a-z_]\w*=[\w'"[\].]*[\w'"\]]/
const DOTTED = /\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+/
const FLAG = /(?<![\w-])--[a-z][\w-]+/
const SETTING = /\b[A-Z]{2,}(?:_[A-Z0-9]+)+\b/
const CODE = new RegExp([CALL, OPTION, DOTTED, FLAG, SETTING].map(({ source }) => source).join('|'), 'g')

export function codePieces(text: string): { isCode: boolean; text: string }[] {
  const pieces: { isCode: boolean; text: string }[] = []
  let last = 0
  for (const match of text.matchAll(CODE)) {
    if (match.index > last) pieces.push({ isCode: false, text: text.slice(last, match.index) })
    pieces.push({ isCode: true, text: match[0] })
    last = match.index + match[0].length
  }
  if (last < text.length) pieces.push({ isCode: false, text: text.slice(last) })
  return pieces
}
