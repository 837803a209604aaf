// Walks through the page inside a real TensorBoard, takes pictures and asks axe: node dev/act.mjs <tensorboard url> <folder>
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium } from 'playwright-core'

const [
  tensorboard = 'http://localhost:6017/',
  folder = '/tmp/shots/act',
  run = 'synthetic_gpu',
  scheme = 'light',
  size = '1440x900',
] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
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
const [width, height] = size.split('x').map(Number)
const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme })
page.on('console', (m) => {
  if (m.type() === 'error') console.log('CONSOLE', m.text().slice(0, 300))
})
page.on('pageerror', (e) => console.log('PAGE ERROR', e.message.slice(0, 300)))
page.on('request', (r) => {
  if (!r.url().startsWith(tensorboard) && !r.url().startsWith('data:')) console.log('OUTSIDE', r.url().slice(0, 120))
})
await page.goto(`${tensorboard}?darkMode=${scheme === 'dark'}#torch_trace&p.torch_trace.run=${run}`)
await page.waitForTimeout(4500)
const frame = () => page.frames().find((f) => f.url().includes('torch_trace/index.html'))
if (!frame()) {
  console.log(
    'NO FRAME',
    page.frames().map((f) => f.url()),
  )
  process.exit(1)
}
let n = 0
const shot = async (name) => {
  await page.waitForTimeout(600)
  await page.screenshot({ path: `${folder}/${String(n++).padStart(2, '0')}_${name}.png` })
}
const check = async (name) => {
  await frame().evaluate(axe)
  const found = await frame().evaluate(async () =>
    (await window.axe.run(document, { resultTypes: ['violations'] })).violations.map((v) =>
      `${v.impact} ${v.id}: ${v.nodes.length} × ${v.nodes[0].html.slice(0, 160)} ${v.nodes[0].any[0]?.message ?? ''}`.slice(
        0,
        330,
      ),
    ),
  )
  for (const item of found) console.log(`AXE ${name}:`, item)
}
const nav = async (title) => {
  await frame().click(`nav button:has-text("${title}")`)
  await page.waitForTimeout(1200)
}
const steps = (process.env.ACTS ?? 'overview,timeline,operators,kernels,modules,quality,pick').split(',')
for (const step of steps) {
  try {
    if (step === 'overview') {
      await shot('overview')
      await check('overview')
      const box = await frame().locator('.tt-chart canvas').first().boundingBox()
      if (box) {
        await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.6)
        await shot('overview_hover')
        await page.mouse.click(box.x + box.width * 0.3, box.y + box.height * 0.6)
        await page.waitForTimeout(1200)
        await shot('overview_step')
        console.log('HASH', await page.evaluate(() => location.hash))
        await page.goBack()
        await page.waitForTimeout(800)
        console.log('BACK', await page.evaluate(() => location.hash))
      }
    }
    if (step === 'timeline') {
      await nav('Timeline')
      await check('timeline')
      const box = await frame().locator('.tt-timeline canvas').boundingBox()
      await page.mouse.move(box.x + 500, box.y + 90)
      await page.waitForTimeout(200)
      for (let i = 0; i < 6; i++) {
        await page.mouse.wheel(0, -240)
        await page.waitForTimeout(60)
      }
      await page.waitForTimeout(900)
      await shot('timeline_zoomed')
      await page.mouse.click(box.x + 500, box.y + 78)
      await page.waitForTimeout(900)
      await page.mouse.move(box.x + 560, box.y + 370)
      await shot('timeline_event')
      await check('timeline_event')
      console.log('HASH', await page.evaluate(() => location.hash))
    }
    if (step === 'operators') {
      await nav('Operators')
      await shot('operators')
      await check('operators')
      await frame().locator('.tt-row-name').nth(1).click()
      await page.waitForTimeout(1500)
      await shot('operators_open')
      await check('operators_open')
      await frame().click('text=By input shape')
      await page.waitForTimeout(900)
      await shot('operators_shape')
      await frame().locator('.tt-legend-name').first().click()
      await page.waitForTimeout(900)
      await shot('operators_filtered')
    }
    if (step === 'kernels') {
      await nav('Kernels')
      await shot('kernels')
      await frame().fill('input[data-search]', '/(soft/')
      await page.waitForTimeout(500)
      await shot('kernels_badregex')
      await frame().fill('input[data-search]', '')
      await page.waitForTimeout(800)
      await frame().locator('.tt-row-name').first().click()
      await page.waitForTimeout(1200)
      await shot('kernels_open')
      await check('kernels_open')
      await frame().click('text=Copies')
      await page.waitForTimeout(900)
      await shot('kernels_copies')
    }
    if (step === 'modules') {
      await nav('Modules')
      await frame().locator('.tt-tree-row').nth(2).click()
      await page.waitForTimeout(400)
      await shot('modules')
      await check('modules')
      await frame().click('text=By module')
      await page.waitForTimeout(900)
      await shot('modules_table')
    }
    if (step === 'quality') {
      await frame().click('.tt-quality')
      await page.waitForTimeout(1200)
      await shot('quality')
      await check('quality')
      await page.keyboard.press('Escape')
      await page.waitForTimeout(500)
      await frame().click('button:has-text("Export")')
      await shot('export')
      await page.keyboard.press('Escape')
      await frame().locator('body').press('?')
      await shot('help')
      await page.keyboard.press('Escape')
    }
    if (step === 'pick') {
      await frame().click('.tt-pick >> nth=0')
      await shot('pick_run')
      await page.keyboard.press('Escape')
      await frame().click('button[aria-label^="Steps"]')
      await shot('pick_steps')
      await page.keyboard.press('Escape')
      await frame().hover('nav .tt-off >> nth=0')
      await page.waitForTimeout(500)
      await shot('nav_off')
    }
  } catch (error) {
    console.log('FAILED', step, String(error).slice(0, 500))
    await shot(`failed_${step}`)
  }
}
await browser.close()
