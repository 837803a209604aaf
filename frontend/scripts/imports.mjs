// One direction of imports: lib <- canvas <- widgets <- parts <- pages <- app <- main; only parts, pages and app fetch data
// (api, state). The report shows recorded answers: it uses all but `api`. Wire types (api/payloads, type-only) may be imported anywhere. A page never imports another page: what two
// pages share is in parts/. Style sheets follow the same rules.
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
  parts: ['parts', 'widgets', 'canvas', 'lib', 'api', 'state'],
  pages: ['pages', 'parts', 'widgets', 'canvas', 'lib', 'api', 'state'],
  app: ['app', 'pages', 'parts', 'widgets', 'canvas', 'lib', 'api', 'state'],
  report: ['report', 'app', 'pages', 'parts', 'widgets', 'canvas', 'lib', 'state'],
  main: ['app', 'widgets', 'lib', 'state'],
  index: [],
}

const layer = (path) =>
  relative(SRC, path)
    .split('/')[0]
    .replace(/\.(test\.)?tsx?$/, '')
/** The folder of a page below pages/; undefined for everything else, also for the registry pages/index.ts. */
const pageOf = (path) => /^pages\/([^/]+)\//.exec(relative(SRC, path))?.[1]
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
    const [page, otherPage] = [pageOf(path), pageOf(target)]
    if (page && otherPage && page !== otherPage)
      problems.push(`${name}: a page never imports another page (${otherPage})`)
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
