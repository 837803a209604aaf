import { expect, test } from 'vitest'
import { trackBands } from './trackMap'

const part = (top: number, height: number, kind: string) => ({ top, height, kind })
const ends = (bands: string) =>
  [...bands.matchAll(/transparent (?:calc\()?[\d.]+%(?: - 1px\))? ([\d.]+)%/g)].map(([, end]) => end)

test('each track is a band as high as its share', () => {
  expect(ends(trackBands([part(0, 25, 'kernel'), part(25, 75, 'kernel')], 100))).toEqual(['25', '100'])
  expect(trackBands([], 0)).toBe('none')
})

test('of very many tracks, neighbours of one kind are one band', () => {
  const many = Array.from({ length: 1000 }, (_, i) => part(i, 1, i < 400 ? 'kernel' : 'operator'))
  expect(ends(trackBands(many, 1000))).toEqual(['40', '100'])
})
