// Public names (files, exported declarations) without the vague words that style.md bans.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const SRC = resolve(dirname(fileURLToPath(import.meta.url)), '../src')
const BANNED = new Set(
  'about alone apart asked away beside found held here joined kept known made met named need only said seen several shown stated team there together told whole'.split(
    ' ',
  ),
)
const EXPORTED = /^export (?:default )?(?:async )?(?:function|const|let|class|interface|type|enum) (\w+)/gm
const words = (name) => name.replace(/([a-z\d])([A-Z])/g, '$1 $2').split(/[^A-Za-z]+/)

const problems = []
for (const name of readdirSync(SRC, { recursive: true }).map(String)) {
  if (!/\.(tsx?|css)$/.test(name) || name === 'api/payloads.ts') continue
  const exported = [...readFileSync(join(SRC, name), 'utf8').matchAll(EXPORTED)].map(([, id]) => id)
  for (const id of [basename(name).split('.')[0], ...exported]) {
    const bad = words(id).find((word) => BANNED.has(word.toLowerCase()))
    if (bad) problems.push(`${name}: ${id} has the vague word "${bad}"`)
  }
}

if (problems.length > 0) {
  console.error(problems.join('\n'))
  process.exit(1)
}
