import { expect, test } from 'vitest'
import { emptyHint, isPlainSearch, matcher } from './search'

test.each(['aten::mm', '/a b: c>d/', 'ProfilerStep#3', 'threading.py(3)', ''])('the page matches %s', (text) => {
  expect(isPlainSearch(text)).toBe(true)
})

test.each(['dur>100us', 'kind:kernel', 'a b', '"a b"', 'op:aten::mm', '/a/ kind:kernel', '-relu', 'arg.grid=[1]'])(
  'the server reads %s',
  (text) => {
    expect(isPlainSearch(text)).toBe(false)
  },
)

test('a kernel is found by the name that is shown', () => {
  const name = 'maxwell_scudnn_128x32_relu_interior_nn_v1'
  for (const text of ['conv', '/conv.*f32/', 'scudnn']) expect(matcher(text)?.(name)).toBe(true)
  expect(matcher('bf16')?.(name)).toBe(false)
})

test.each([
  ['Stream 7', 'menu Tracks'],
  ['a|b', '/a|b/'],
  ['NOT relu', '-text'],
])('nothing found for %s says what to do', (text, hint) => expect(emptyHint(text)).toContain(hint))
