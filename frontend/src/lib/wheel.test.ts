import { expect, test } from 'vitest'
import { wheelAction } from './wheel'

const NONE = { deltaX: 0, deltaY: 0, ctrlKey: false, metaKey: false, shiftKey: false }
const down = { ...NONE, deltaY: 100 }
const sideways = { ...NONE, deltaX: 100, deltaY: 10 }

test.each(['scroll', 'zoom'] as const)('with Ctrl or Cmd the wheel zooms if a plain one does %s', (style) => {
  expect(wheelAction({ ...down, ctrlKey: true }, style, false)).toBe('zoom')
  expect(wheelAction({ ...down, metaKey: true }, style, true)).toBe('zoom')
})

test('as in Perfetto the wheel scrolls, with Shift or two fingers sideways it moves in time', () => {
  expect(wheelAction(down, 'scroll', false)).toBe('across')
  expect(wheelAction(sideways, 'scroll', false)).toBe('along')
  expect(wheelAction({ ...down, shiftKey: true }, 'scroll', false)).toBe('along')
})

test('where the wheel zooms, it scrolls over the names of tracks and with Shift', () => {
  expect(wheelAction(down, 'zoom', false)).toBe('zoom')
  expect(wheelAction(down, 'zoom', true)).toBe('across')
  expect(wheelAction({ ...down, shiftKey: true }, 'zoom', false)).toBe('across')
  expect(wheelAction(sideways, 'zoom', false)).toBe('along')
})
