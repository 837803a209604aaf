// Plain words on the page: sentences of at most 20 words, and none of the starts and words that style.md bans. Checks string
// literals, templates and JSX text of src.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseSync } from 'vite'

const SRC = resolve(dirname(fileURLToPath(import.meta.url)), '../src')
const MOST_WORDS = 20
const STARTS = /^(Of|What|Where|Whom|So many)\b/
const BANNED =
  /\b(mend(s|ed|ing)?|meanwhile|nobody|somebody|in sight|as far as|so many|lets? go|outermost|whole trace|whole window|chosen|beside|stated|told|tells|passed over|left out|leaves out|ends early|cut off|begins?|began|what nothing hides|starved|worth a word|by much|trainings|launched, not started|at hand|as at first|lies|stands)\b/i
/** Attributes and properties that hold no prose. */
const NO_PROSE = new Set([
  'className',
  'd',
  'style',
  'data-testid',
  'key',
  'href',
  'rel',
  'gridTemplateColumns',
  'font',
  'background',
])
/** Python code and other texts that are data. */
const isData = (text) => text.includes('\n') || /[{};]\s*$/.test(text) || /^(\(prefers-|M\d)/.test(text)

/** The texts of a syntax tree with their offsets; `{}` stands for a value, so that a sentence is read as a whole. */
function* texts(node, key = '') {
  if (!node || typeof node.type !== 'string') return
  if (/^(Import|Export(All|Named))Declaration$/.test(node.type) && node.source) return
  if (node.type.startsWith('TS') && !/^TS(As|Satisfies|NonNull)/.test(node.type)) return
  if (NO_PROSE.has(key)) return
  if (node.type === 'Literal' && typeof node.value === 'string') yield [node.start, node.value]
  else if (node.type === 'TemplateLiteral') yield [node.start, node.quasis.map(({ value }) => value.cooked).join('{}')]
  else if (/^JSX(Element|Fragment)$/.test(node.type) && node.children.some(({ type }) => type === 'JSXText'))
    yield [node.start, node.children.map(jsxText).join('').trim()]
  for (const [name, value] of Object.entries(node)) {
    const inner =
      name === 'value' && node.type === 'JSXAttribute'
        ? String(node.name.name)
        : name === 'value' && node.type === 'Property'
          ? String(node.key.name ?? node.key.value)
          : ''
    for (const child of Array.isArray(value) ? value : [value])
      if (child && typeof child === 'object') yield* texts(child, inner)
  }
}

function jsxText(node) {
  if (node.type === 'JSXText') return node.value.replace(/\s+/g, ' ').replaceAll('&nbsp;', ' ')
  const value = node.type === 'JSXExpressionContainer' ? node.expression : node
  if (value.type === 'Literal' && typeof value.value === 'string') return value.value
  return /^JSX(Element|Fragment)$/.test(value.type) ? value.children.map(jsxText).join('') || '{}' : '{}'
}

const problems = []
for (const name of readdirSync(SRC, { recursive: true }).map(String)) {
  if (!/\.tsx?$/.test(name) || name.includes('.test.') || name === 'api/payloads.ts') continue
  const code = readFileSync(join(SRC, name), 'utf8')
  for (const [offset, text] of texts(parseSync(name, code, { lang: name.endsWith('x') ? 'tsx' : 'ts' }).program)) {
    if (!text.trim().includes(' ') || isData(text)) continue
    const report = (problem) => problems.push(`${name}:${code.slice(0, offset).split('\n').length}: ${problem}`)
    const banned = BANNED.exec(text)
    if (banned) report(`"${banned[0]}" in: ${text}`)
    for (const sentence of text.split(/(?<=[.:;!?])\s+|\s·\s/)) {
      const words = sentence.split(/\s+/).filter((word) => /[\p{L}\d{]/u.test(word))
      if (words.length > MOST_WORDS) report(`${words.length} words: ${sentence}`)
      if (STARTS.test(sentence) && /\s/.test(sentence)) report(`begins with "${words[0]}": ${sentence}`)
    }
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
