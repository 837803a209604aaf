// Writes src/app/tokens.css, the custom properties of the style sheets, from src/lib/tokens.ts.
// With --check: fails if the file is outdated.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runnerImport } from 'vite'

const target = new URL('../src/app/tokens.css', import.meta.url)
const source = fileURLToPath(new URL('../src/lib/tokens.ts', import.meta.url))

const { LIGHT, DARK } = (await runnerImport(source)).module
const property = ([name, value]) =>
  `  --tt-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}: ${value};\n`
const block = (selector, tokens) => `${selector} {\n${tokens.map(property).join('')}}\n`
const text = [
  '/* GENERATED from lib/tokens.ts by `npm run tokens`. Do not edit. */\n',
  block(':root', Object.entries(LIGHT)),
  block(
    ':root[data-mantine-color-scheme="dark"]',
    Object.entries(DARK).filter(([name, value]) => value !== LIGHT[name]),
  ),
].join('')

if (process.argv.includes('--check')) {
  if (readFileSync(target, 'utf8') !== text) {
    console.error('src/app/tokens.css is out of date: run `npm run tokens`.')
    process.exit(1)
  }
} else {
  writeFileSync(target, text)
}
