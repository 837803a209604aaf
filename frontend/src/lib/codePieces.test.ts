import { expect, test } from 'vitest'
import { codePieces } from './codePieces'

test.each([
  ['Add ProfilerActivity.CPU to profile(activities=...), and with_stack=True for calls.', ['ProfilerActivity.CPU', 'profile(activities=...)', 'with_stack=True']],
  ["Wrap parts of the step in torch.profiler.record_function('name').", ["torch.profiler.record_function('name')"]],
  ['Record operators (ProfilerActivity.CPU) in steps that call backward().', ['ProfilerActivity.CPU', 'backward()']],
  ['Record the program, not only the profiler. Then wait.', []],
  ['Set TORCH_TRACE_MEMORY_MB or --enforce-eager, see f(g(1), 2).', ['TORCH_TRACE_MEMORY_MB', '--enforce-eager', 'f(g(1), 2)']],
])('code in: %s', (text, code) => {
  const pieces = codePieces(text)
  expect(pieces.flatMap((piece) => (piece.isCode ? [piece.text] : []))).toEqual(code)
  expect(pieces.map((piece) => piece.text).join('')).toBe(text)
}) // biome-ignore format: one line a case
