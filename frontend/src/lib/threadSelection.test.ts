import { describe, expect, test } from 'vitest'
import { selectedThreads, threadsOf, threadsText, writeThreads } from './threadSelection'

const row = (key: string, name: string, idle = false) => ({
  thread: name,
  thread_key: key,
  thread_host_ns: 5,
  thread_wait_ns: 0,
  thread_idle: idle,
})
const THREADS = threadsOf([
  row('1:1', 'Main thread'),
  row('1:2', 'worker'),
  row('1:3', 'worker'),
  row('1:0', 'monitor', true),
])
const WORKING = THREADS.slice(0, 3)

describe('threads', () => {
  test('of one name are told apart by their keys', () => {
    expect(THREADS.map(({ name }) => name)).toEqual(['Main thread', 'worker (1:2)', 'worker (1:3)', 'monitor'])
  })

  test.each([
    ['', ['1:1', '1:2', '1:3']],
    ['all', ['1:1', '1:2', '1:3', '1:0']],
    ['1:2', ['1:2']],
    ['1%3A2,1:1', ['1:1', '1:2']],
    ['monitor,2', ['1:2', '1:0']],
    ['nobody', []],
  ])('a choice of %j', (text, keys) => {
    expect([...selectedThreads(THREADS, text)]).toEqual(keys)
  })

  test.each([
    [['1:1', '1:2', '1:3'], ''],
    [['1:1', '1:2', '1:3', '1:0'], 'all'],
    [['1:0', '1:1'], '1%3A1,1%3A0'],
    [[], ''],
  ])('%j is written', (keys, text) => {
    expect(writeThreads(THREADS, new Set(keys))).toBe(text)
    if (keys.length > 0) expect(selectedThreads(THREADS, text)).toEqual(new Set(keys))
  })

  test('are said in a word', () => {
    expect(['', 'all', '1:2', '1:2,1:0', 'nobody'].map((text) => threadsText(THREADS, text))).toEqual([
      'Busy threads',
      'All threads, including idle',
      'worker (1:2)',
      '2 of 4 threads',
      '0 of 4 threads',
    ])
    expect(['', '1:1'].map((text) => threadsText(WORKING, text))).toEqual(['All threads', 'Main thread'])
  })
})
