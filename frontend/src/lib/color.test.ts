import { expect, it } from 'vitest'
import { categories, categoryColor, contrast, inkOn, mix, trendOf } from './color'
import { DARK, LIGHT, TREND } from './tokens'

it.each(categories())('%s holds 3:1 on both themes', (category) => {
  expect(contrast(categoryColor(category), LIGHT.panel)).toBeGreaterThanOrEqual(3)
  expect(contrast(categoryColor(category), DARK.panel)).toBeGreaterThanOrEqual(3)
})

it.each(Object.entries(TREND))('%s holds 3:1 on both themes', (_, color) => {
  expect(contrast(color, LIGHT.panel)).toBeGreaterThanOrEqual(3)
  expect(contrast(color, DARK.panel)).toBeGreaterThanOrEqual(3)
})

it.each([LIGHT, DARK])('the critical path holds 3:1', ({ path, panel }) =>
  expect(contrast(path, panel)).toBeGreaterThanOrEqual(3),
)

it('tells slower from faster', () =>
  expect([2, -2, 0].map((value) => trendOf(value))).toEqual(['slower', 'faster', 'same']))

it('colours no change within noise', () => {
  expect(trendOf(2, { low: -1, high: 5 })).toBe('same')
  expect(trendOf(2, { low: 1, high: 3 })).toBe('slower')
})

it.each(categories())('text on %s is readable', (category) => {
  for (const panel of [LIGHT.panel, DARK.panel]) {
    for (let part = 0; part <= 100; part++) {
      const color = mix(categoryColor(category), panel, part / 100)
      expect(contrast(color, inkOn(color))).toBeGreaterThanOrEqual(4.58)
    }
  }
})

it('gives an unknown category one fixed colour', () => {
  expect(categoryColor('brand-new')).toBe(categoryColor('brand-new'))
})

it('mixes', () => expect(mix('#ffffff', '#000000', 0.5)).toBe('#808080'))
