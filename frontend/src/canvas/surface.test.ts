import { expect, test } from 'vitest'
import { cutDistinct, cutMiddle } from './surface'

const context = {
  measureText: (text: string) => ({ width: 7 * text.length }),
} as unknown as CanvasRenderingContext2D

test('names of which only the ends differ are cut so that these stay, and what fits is left alone', () => {
  const names = Array.from({ length: 12 }, (_, at) => `TENSOR_MODEL_PARALLEL_GROUP ${at}`)
  const shown = [...cutDistinct(context, names, 7 * 20).values()]
  expect(new Set(shown).size).toBe(12)
  expect(Math.max(...shown.map((text) => text.length))).toBeLessThanOrEqual(20)
  expect([...cutDistinct(context, ['rank0', 'rank1'], 7 * 5).values()]).toEqual(['rank0', 'rank1'])
  expect(cutDistinct(context, [], 10).size).toBe(0)
})

test('a title is shortened in the middle: its end says what the track holds', () => {
  const shown = cutMiddle(context, 'Main thread · operators', 7 * 16)
  expect(shown).toHaveLength(16)
  expect(shown).toMatch(/^Main th.*…rators$/)
  expect(cutMiddle(context, 'Autograd', 7 * 16)).toBe('Autograd')
})
