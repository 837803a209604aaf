import { expect, test } from 'vitest'
import { isPlainSearch } from './search'

test.each(['aten::mm', '/a b: c>d/', 'ProfilerStep#3', 'threading.py(3)', ''])('the page matches %s', (text) => {
  expect(isPlainSearch(text)).toBe(true)
})

test.each(['dur>100us', 'kind:kernel', 'a b', '"a b"', 'op:aten::mm', '/a/ kind:kernel', 'arg.grid=[1]'])(
  'the server reads %s',
  (text) => {
    expect(isPlainSearch(text)).toBe(false)
  },
)
