import { expect, test } from 'vitest'
import { SAME } from '../../lib/rankAxis'
import { LIGHT } from '../surface'
import { drawName } from './draw'
import { SECTION } from './layout'

const GUTTER = 200

/** Texts of the name of a section with their heights; each character is 6 pixels wide. */
function drawn(title: string, subtitle: string): [string, number][] {
  const texts: [string, number][] = []
  const context = {
    font: '',
    measureText: (text: string) => ({ width: 6 * text.length }),
    fillText: (text: string, _: number, y: number) => text !== '' && texts.push([text, y]),
    ...Object.fromEntries(
      ['fillRect', 'beginPath', 'moveTo', 'lineTo', 'closePath', 'fill'].map((of) => [of, () => {}]),
    ),
  } as unknown as CanvasRenderingContext2D
  const section = { key: '', title, subtitle, note: '', isFailed: false, model: null, placement: SAME }
  drawName(context, { theme: LIGHT, width: 1000, gutter: GUTTER }, { section, isOpen: false }, 0)
  return texts
}

test('a name stands in the middle, above its subtitle where that does not fit beside it', () => {
  const middle = SECTION / 2
  // As long as a name may be.
  const long = 'x'.repeat((GUTTER - 32) / 6)
  expect(drawn('rank0', 'the axis')).toEqual([
    ['rank0', middle],
    ['the axis', middle],
  ])
  expect(drawn(long, 'the axis')).toEqual([
    [long, middle - 5],
    ['the axis', middle + 8],
  ])
  expect(drawn(long, '')).toEqual([[long, middle]])
})
