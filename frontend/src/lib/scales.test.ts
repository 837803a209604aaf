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
  for (const speed of ['gone', 'unchanged', 'twice as fast', '1.5 times as long', '1e+06 times as fast'])
    expect(shortChange(`${kernel} ${speed}`)).toBe(`elementwise [add] ${speed}`)
  expect(shortChange('aten::mm gone')).toBe('aten::mm gone')
  expect(shortChange('All changes together')).toBe('All changes together')
})
