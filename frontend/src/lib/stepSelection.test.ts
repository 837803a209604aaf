import { expect, it } from 'vitest'
import { parseSteps, writeSteps } from './stepSelection'

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
