import { expect, it } from 'vitest'
import { canOpen, DEFAULT_EDITOR, editorUrl, parseFrame, parseStack, shortFrame } from './frames'

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

it('leaves the folder of installed packages out', () => {
  expect(shortFrame('/opt/py/lib/python3.7/site-packages/torch/optim/sgd.py(7): step')).toBe(
    'torch/optim/sgd.py(7): step',
  )
  expect(shortFrame('C:\\py\\site-packages\\torch\\x.py(7): f')).toBe('torch\\x.py(7): f')
  expect(shortFrame('/home/me/train.py(7): site-packages/')).toBe('/home/me/train.py(7): site-packages/')
  expect(shortFrame('/srv/app/python/sglang/srt/run.py(7): f'), 'two folders are enough').toBe(
    'sglang/srt/run.py(7): f',
  )
  expect(shortFrame('train.py(7): step')).toBe('train.py(7): step')
  expect(shortFrame('/a/b/torch/sgd.py(7): a/b', 20)).toBe('torch/sgd.py(7): a/b')
  expect(shortFrame('/a/b/torch/sgd.py(7): a/b', 3)).toBe('sgd.py(7): a/b')
  expect(shortFrame('/a/b/torch/sgd.py(7): a/b', 9), 'the line says more than the function').toBe('sgd.py(7)')
  expect(shortFrame('/a/b/torch/optimizer.py(712): a/b', 10), 'the end of the file has the line').toBe('…r.py(712)')
})
