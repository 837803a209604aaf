import { MantineProvider } from '@mantine/core'
import { renderToStaticMarkup } from 'react-dom/server'
import { expect, test } from 'vitest'
import type { Loading, Profile } from '../api/payloads'
import { LoadingPanel } from './profileState'

function shown(loading: Partial<Loading>, events_read = 0): string {
  const profile = {
    state: 'loading',
    fraction: 0.25,
    events_read,
    loading: { stage: 'reading', seconds: 4, fraction: 0.25, counts: {}, about: [], ...loading },
  } as Profile
  const html = renderToStaticMarkup(
    <MantineProvider>
      <LoadingPanel profile={profile} span={null} />
    </MantineProvider>,
  )
  const body = html.slice(html.indexOf('role="status"'))
  return body.replaceAll(/<style.*?<\/style>/gs, '').replaceAll(/<[^>]*>/g, '|')
}

const words = (html: string) => html.split('|').filter((word) => word.trim() !== '')

test('reading says how far, how much, how fast, how much longer, and of which kinds', () => {
  const html = shown({ counts: { kernel: 200_000, other: 7, operator: 800_000 } }, 1_000_007)
  expect(words(html).slice(1)).toEqual([
    'Reading the trace',
    '25 %',
    '1,000,007 events',
    '250,000 events/s',
    'about 12 s left',
    'operators ',
    '800,000',
    'kernels ',
    '200,000',
    'names, flow arrows and marks ',
    '7',
  ])
})

test('a stage whose end nobody knows has no per cent, no speed and no time left', () => {
  const html = shown({ stage: 'assembling', fraction: null, counts: { operator: 5 } }, 5)
  expect(words(html).slice(1)).toEqual(['Linking operators, launches and steps', '5 events', 'operators ', '5'])
})

test('a rate or a time that could not be right yet is not shown', () => {
  expect(shown({ seconds: 0.5 }, 100)).not.toMatch(/left|events\/s/)
  expect(shown({ seconds: 20, fraction: 0.01 }, 100)).not.toMatch(/left/)
})

test('an unknown kind keeps its name', () => {
  expect(shown({ counts: { new_thing: 3 } }, 3)).toContain('new thing')
})

test('what the file states ahead of its events is there before them', () => {
  const metric = { key: 'deviceProperties', title: 'Devices', unit: 'text' as const, definition: '', window: '' }
  const html = shown({ about: [{ metric, value: '8 × <b>Tesla', note: '' }] })
  expect(words(html)).toContain('Devices')
  expect(html).toContain('8 × &lt;b&gt;Tesla')
})
