// Screenshots of every view, for looking at: node dev/shots.mjs <base url> <folder> [view,view...]
import { mkdirSync } from 'node:fs'
import { chromium } from 'playwright-core'

const [base = 'http://localhost:5173/', folder = '/tmp/shots', only = ''] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
const SIZES = [
  [1440, 900],
  [1000, 700],
]
const VIEWS = only ? only.split(',') : ['overview', 'timeline', 'operators', 'kernels', 'modules']
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
})
const extra = process.env.HASH ?? ''
const themes = (process.env.THEMES ?? 'light,dark').split(',')
const sizes = process.env.SIZE ? [process.env.SIZE.split('x').map(Number)] : SIZES
for (const scheme of themes) {
  for (const [width, height] of sizes) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme })
    for (const view of VIEWS) {
      const page = await context.newPage()
      page.on('console', (m) => {
        if (m.type() === 'error' || m.type() === 'warning') console.log(view, scheme, width, m.text().slice(0, 400))
      })
      page.on('pageerror', (e) => console.log(view, 'PAGE ERROR', e.message.slice(0, 400)))
      await page.goto(`${base}#torch_trace&p.torch_trace.view=${view}${extra}`)
      await page.waitForLoadState('networkidle').catch(() => {})
      await page.waitForTimeout(500)
      await page.screenshot({ path: `${folder}/${view}_${width}_${scheme}.png` })
      await page.close()
    }
    await context.close()
  }
}
await browser.close()
