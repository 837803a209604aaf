// Checks of the style sheets: one rule per selector, no undefined or unused classes, colours only in lib/tokens.ts.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const SRC = resolve(dirname(fileURLToPath(import.meta.url)), '../src')
/** Sheets for elements and Mantine's classes. */
const GLOBAL = new Set(['app/global.css', 'app/mantine.css', 'app/print.css', 'app/tokens.css'])
const COLOR = /#[0-9a-f]{3,8}\b|\b(?:rgba?|hsla?|oklch)\(/gi

const problems = []
const names = readdirSync(SRC, { recursive: true }).map(String)
const read = (name) => readFileSync(join(SRC, name), 'utf8')

/** The rules of a sheet as [at-rules around it, selector], one per selector. Nested rules are a problem. */
function rulesOf(name, css) {
  const rules = []
  const around = []
  let from = 0
  for (let i = 0; i < css.length; i++) {
    if (css[i] === '{') {
      const head = css.slice(from, i).trim().replace(/\s+/g, ' ')
      if (!head.startsWith('@')) {
        if (around.some((outer) => !outer.startsWith('@'))) problems.push(`${name}: ${head} stands within another rule`)
        const scope = around.join(' ')
        for (const selector of splitList(head)) rules.push([scope, selector])
      }
      around.push(head)
      from = i + 1
    } else if (css[i] === '}') {
      around.pop()
      from = i + 1
    } else if (css[i] === ';') from = i + 1
  }
  return rules.filter(([scope]) => !scope.includes('@keyframes'))
}

/** Splits at commas outside brackets. */
function splitList(text) {
  const parts = ['']
  let depth = 0
  for (const char of text) {
    if (char === '(') depth += 1
    if (char === ')') depth -= 1
    if (char === ',' && depth === 0) parts.push('')
    else parts[parts.length - 1] += char
  }
  return parts.map((part) => part.trim())
}

/** Custom properties set by tokens, sheets and components. */
const properties = new Set(
  names
    .filter((name) => /\.(css|tsx?)$/.test(name))
    .flatMap((name) => [...read(name).matchAll(/(--tt-[\w-]*)(?:\$\{[^}]*\})?[`']?\]?:/g)].map((found) => found[1])),
)

const defined = new Map()
for (const name of names.filter((item) => item.endsWith('.css'))) {
  const css = read(name).replace(/\/\*[\s\S]*?\*\//g, '')
  const isModule = name.endsWith('.module.css')
  if (!isModule && !GLOBAL.has(name)) problems.push(`${name}: call it ${name.replace('.css', '.module.css')}`)
  const [classes, seen] = [new Set(), new Set()]
  for (const [scope, selector] of rulesOf(name, css)) {
    const key = `${scope} ${selector}`.trim()
    if (seen.has(key)) problems.push(`${name}: ${key} is defined twice`)
    seen.add(key)
    const own = [...selector.replace(/:global\([^)]*\)/g, '').matchAll(/\.([a-zA-Z][\w-]*)/g)].map((found) => found[1])
    for (const item of own) classes.add(item)
    if (isModule && own.length === 0) problems.push(`${name}: ${selector} has no class of this file`)
    if (!isModule && own.some((item) => !item.startsWith('mantine-')))
      problems.push(`${name}: ${selector} belongs beside what it styles, in a .module.css`)
  }
  if (isModule) defined.set(name, classes)
  for (const [, property] of css.matchAll(/var\((--tt-[\w-]+)/g))
    if (!properties.has(property)) problems.push(`${name}: ${property} is set nowhere`)
  if (name !== 'app/tokens.css')
    for (const [color] of css.matchAll(COLOR)) problems.push(`${name}: ${color} is no token`)
}

const used = new Map([...defined.keys()].map((name) => [name, new Set()]))
for (const name of names.filter((item) => /\.tsx?$/.test(item))) {
  const text = read(name)
  for (const [, id, from] of text.matchAll(/^import (\w+) from '(\.[^']+\.module\.css)'$/gm)) {
    const sheet = relative(SRC, resolve(dirname(join(SRC, name)), from))
    if (!existsSync(join(SRC, sheet))) {
      problems.push(`${name}: there is no ${from}`)
      continue
    }
    for (const [, item] of text.matchAll(new RegExp(`\\b${id}\\.(\\w+)`, 'g'))) {
      if (item === 'module') continue
      used.get(sheet).add(item)
      if (!defined.get(sheet).has(item)) problems.push(`${name}: ${id}.${item} is not defined in ${sheet}`)
    }
    // Computed class names cannot be checked.
    if (new RegExp(`\\b${id}(\\[|\\)|,)`).test(text))
      problems.push(`${name}: ${id} is used as a whole; name its classes`)
  }
  if (name.includes('.test.')) continue
  for (const [found] of text.matchAll(/\bclassName(?:="|=\{'|=\{`[^`$]|s=\{\{[^}]*?: ')[^"'`]*/g))
    problems.push(`${name}: ${found} names a class of no style sheet`)
  if (name !== 'lib/tokens.ts')
    for (const [color] of text.matchAll(/['"`]#[0-9a-f]{3,8}['"`]|\brgba?\(/gi))
      problems.push(`${name}: ${color} is no token`)
}
for (const [sheet, classes] of defined)
  for (const item of classes) if (!used.get(sheet).has(item)) problems.push(`${sheet}: .${item} is used by nothing`)

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
