import { expect, it } from 'vitest'
import { canOpen, DEFAULT_EDITOR, editorUrl, parseFrame, parseStack } from './frames'

it('reads frames', () => {
  const stack = parseStack('train.py(12): step;/opt/my lib/nn.py(7): forward\n<built-in method mm>')
  expect(stack.map((frame) => [frame.path, frame.line, frame.name])).toEqual([
    ['train.py', 12, 'step'],
    ['/opt/my lib/nn.py', 7, 'forward'],
    [null, null, '<built-in method mm>'],
  ])
  expect(stack.map(canOpen)).toEqual([true, true, false])
})

it('builds editor addresses', () => {
  expect(editorUrl(DEFAULT_EDITOR, parseFrame('/opt/my lib/nn.py(7): forward'))).toBe(
    'vscode://file/opt/my%20lib/nn.py:7',
  )
  expect(editorUrl('idea://open?file={path}&line={line}', parseFrame('/a/b.py(3): f'))).toBe(
    'idea://open?file=/a/b.py&line=3',
  )
  expect(editorUrl('javascript:alert({line})', parseFrame('/a/b.py(3): f'))).toBeNull()
  expect(editorUrl(DEFAULT_EDITOR, parseFrame('<frozen>(3): f'))).toBeNull()
})
