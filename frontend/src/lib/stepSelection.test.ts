import { expect, it } from 'vitest'
import { alignedSteps, parseSteps, writeSteps } from './stepSelection'

const LABELS = ['5', '6', '7', '8', '9', '10', 'warmup']

it.each([
  ['5', ['5']],
  ['7-9', ['7', '8', '9']],
  ['5,9-10,warmup', ['5', '9', '10', 'warmup']],
  ['', []],
  ['nonsense', []],
])('reads %s', (text, labels) => expect([...parseSteps(text, LABELS)]).toEqual(labels))

it('writes what it reads', () => {
  for (const text of ['5', '7-9', '5,9,10', '5-10', 'warmup'])
    expect(writeSteps(parseSteps(text, LABELS), LABELS)).toBe(text)
})

it.each([
  ['the first common step', ['3', '4', '5'], ['4', '5', '6'], '', '', ['4', '4']],
  ['the first step of each without a common one', ['a', 'b'], ['x', 'y'], '', '', ['a', 'x']],
  ['the selected step in both', ['1', '2', '3'], ['1', '2', '3'], '3', '', ['3', '3']],
  ['the selected step of each', ['1', '2', '3'], ['1', '2', '3'], '3', '2', ['3', '2']],
  ['the step selected in the other', ['1', '2', '3'], ['1', '2', '3'], '', '2', ['2', '2']],
  ['nothing without steps', [], ['1'], '', '', [undefined, '1']],
])('aligns two profiles by %s', (_, labels, others, chosen, other, found) =>
  expect(alignedSteps(labels, others, chosen, other)).toEqual(found),
)
