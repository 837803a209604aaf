// Writes src/api/payloads.ts from the JSON Schema that `python -m tb_plugin.payloads.export` made.
// With --check: fails if the file is outdated.
import { readFileSync, writeFileSync } from 'node:fs'
import { compile } from 'json-schema-to-typescript'

const schemaPath = new URL('../src/api/payloads.schema.json', import.meta.url)
const target = new URL('../src/api/payloads.ts', import.meta.url)

const compiled = await compile(JSON.parse(readFileSync(schemaPath, 'utf8')), 'Payloads', {
  bannerComment: '// GENERATED from payloads.schema.json by `npm run types`. Do not edit.',
  additionalProperties: false,
  unreachableDefinitions: true,
  style: { semi: false, singleQuote: true, printWidth: 120 },
})
const text = `${compiled.replace(/( \*\n)? \* This interface was referenced by [^\n]*\n \* via [^\n]*\n/g, '')}
export type Unit = Metric['unit']
export type Scalar = Figure['value']
export type Payload = View['payloads'][string]
export type Kind = Payload['kind']
export type Severity = Notice['severity']
`

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('src/api/payloads.ts is out of date: run `npm run types`.')
    process.exit(1)
  }
} else {
  writeFileSync(target, text)
}
