import { expect, it } from 'vitest'
import { added, scaleOf, shortChange, shortScale, withFactor } from './scales'

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

it('shortens the kernel of a change', () => {
  const kernel = 'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int, a=b)'
  expect(shortScale(`kernel:${kernel}=0.5`)).toBe('kernel:elementwise [add]=0.5')
  expect(shortScale('operator:f<a>(b)=0')).toBe('operator:f<a>(b)=0')
  expect(shortScale('copies=0')).toBe('copies=0')
})

it('shortens titles of changes of kernels only', () => {
  const kernel = 'void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int, a=b)'
  expect(shortChange(`${kernel} in any words`, `kernel:${kernel}=0.5`)).toBe('elementwise [add] in any words')
  expect(shortChange('f<a>(b) gone', 'operator:f<a>(b)=0')).toBe('f<a>(b) gone')
  expect(shortChange('Module f<a>(b) gone', 'module:f<a>(b)=0')).toBe('Module f<a>(b) gone')
  expect(shortChange('All copies gone', 'copies=0')).toBe('All copies gone')
  expect(shortChange('All changes together', 'all together')).toBe('All changes together')
})
