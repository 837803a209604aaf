import { expect, it } from 'vitest'
import { added, scaleOf, withFactor } from './scales'

it('names work and its factor', () => {
  expect(scaleOf('operator', ' aten::mm ', '0.5')).toBe('operator:aten::mm=0.5')
  expect(scaleOf('copies', 'ignored', '0')).toBe('copies=0')
})

it('takes the factor behind the last equal sign', () => {
  expect(withFactor('kernel:f<a=1>=0', '0.5')).toBe('kernel:f<a=1>=0.5')
})

it('replaces another factor of the same work', () => {
  expect(added(['copies=0', 'kernel:a=0'], 'copies=0.5')).toEqual(['kernel:a=0', 'copies=0.5'])
})
