// One direction of imports: lib <- canvas <- widgets <- views <- app <- main; api and state stand beside widgets.
// Types of the wire (api/payloads, type-only) may be named anywhere. A view never imports a view. Style sheets follow the
// same rules; a file's own is the one of its name.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const SRC = resolve(dirname(fileURLToPath(import.meta.url)), '../src')
const ALLOWED = {
  lib: ['lib'],
  api: ['api', 'lib'],
  state: ['state', 'api', 'lib'],
  canvas: ['canvas', 'lib'],
  widgets: ['widgets', 'canvas', 'lib'],
  views: ['views', 'widgets', 'canvas', 'lib', 'api', 'state'],
  app: ['app', 'views', 'widgets', 'canvas', 'lib', 'api', 'state'],
  main: ['app', 'widgets', 'lib', 'state'],
  index: [],
}

const layer = (path) =>
  relative(SRC, path)
    .split('/')[0]
    .replace(/\.(test\.)?tsx?$/, '')
const files = readdirSync(SRC, { recursive: true })
  .map(String)
  .filter((name) => /\.tsx?$/.test(name) && !name.endsWith('.d.ts'))
const problems = []

for (const name of files) {
  const path = join(SRC, name)
  const own = layer(path)
  const text = readFileSync(path, 'utf8')
  if (!(own in ALLOWED)) {
    problems.push(`${name}: no layer is called ${own}`)
    continue
  }
  const found = text.matchAll(/(?:^|\n)\s*(import|export)\s+(type\s)?[^'"]*?from\s+'(\.[^']+)'|import\('(\.[^']+)'\)/g)
  for (const [, , typeOnly, from, dynamic] of found) {
    const target = resolve(dirname(path), from ?? dynamic)
    if (!target.startsWith(SRC)) {
      if (!name.includes('.test.')) problems.push(`${name} imports ${from ?? dynamic} from outside src`)
      continue
    }
    const other = layer(target)
    if (typeOnly && relative(SRC, target) === 'api/payloads') continue
    if (!ALLOWED[own].includes(other)) problems.push(`${name} (${own}) may not import ${other}: ${from ?? dynamic}`)
    const isView =
      own === 'views' && other === 'views' && !/(^|\/)(index|view|parts\/)/.test(relative(SRC, path).slice(6))
    const sees = relative(join(SRC, 'views'), target)
    const isOwnSheet = target === path.replace(/\.tsx?$/, '.module.css')
    if (isView && !isOwnSheet && !sees.startsWith('parts/') && sees !== 'view')
      problems.push(`${name}: a view never imports a view (${sees})`)
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
