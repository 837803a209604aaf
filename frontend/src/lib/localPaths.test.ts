import { expect, it } from 'vitest'
import { DEFAULT_EDITOR, editorUrl, parseFrame } from './frames'
import { localPath } from './localPaths'

const map = (path: string, ...pairs: [string, string][]) =>
  localPath(
    path,
    pairs.map(([recorded, local]) => ({ recorded, local })),
  )

it('replaces the folder of a recorded path', () => {
  expect(map('/cluster/src/a/b.py', ['/cluster/src', '/home/me/src'])).toBe('/home/me/src/a/b.py')
  expect(map('/cluster/src/b.py', ['/cluster/src/', '/home/me/'])).toBe('/home/me/b.py')
  expect(map('/b.py', ['/', '/mnt'])).toBe('/mnt/b.py')
  expect(map('/cluster/src', ['/cluster/src', '/home'])).toBe('/home')
})

it('matches whole names only', () => {
  for (const path of ['/cluster/src2/b.py', '/x/cluster/src/b.py', 'cluster/src/b.py', '<frozen>', '/Cluster/src/b.py'])
    expect(map(path, ['/cluster/src', '/home/me'])).toBe(path)
})

it('uses the longest folder, whatever the order', () => {
  const pairs: [string, string][] = [
    ['/a', '/1'],
    ['/a/b', '/2'],
    ['/a/b/c', '/3'],
  ]
  for (const order of [pairs, pairs.toReversed()]) expect(map('/a/b/x.py', ...order)).toBe('/2/x.py')
})

it('maps paths of Windows to Linux and back, in any case', () => {
  expect(map('C:\\Build\\src\\a.py', ['c:\\build', '/home/me'])).toBe('/home/me/src/a.py')
  expect(map('C:/build/src/a.py', ['C:\\build\\', '/home/me'])).toBe('/home/me/src/a.py')
  const local = map('/cluster/src/a b.py', ['/cluster', 'D:\\work'])
  expect(local).toBe('D:\\work\\src\\a b.py')
  expect(editorUrl(DEFAULT_EDITOR, { ...parseFrame('x.py(7): f'), path: local })).toBe(
    'vscode://file/D%3A/work/src/a%20b.py:7',
  )
})
