import { expect, test } from 'vitest'
import type { ViewInfo } from '../api/payloads'
import { firstTab, pagesOf } from './pages'

const view = (id: string, page: string, available = true): ViewInfo => ({
  id,
  title: id,
  available,
  why: '',
  enable: '',
  page,
  page_title: page.toUpperCase(),
  tab: id,
  whole: '',
})

test('views of one page are its tabs; pages without data come last', () => {
  const pages = pagesOf([
    view('idle', 'idle', false),
    view('operators', 'operators'),
    view('modules', 'model'),
    view('kernels', 'operators', false),
  ])
  expect(pages.map(({ id, title, tabs }) => [id, title, tabs.map((tab) => tab.id)])).toEqual([
    ['operators', 'OPERATORS', ['operators', 'kernels']],
    ['model', 'MODEL', ['modules']],
    ['idle', 'IDLE', ['idle']],
  ])
  expect(pages.map(({ available }) => available)).toEqual([true, true, false])
})

test('a page opens with the tab that was open last', () => {
  const [page] = pagesOf([view('a', 'p', false), view('b', 'p'), view('c', 'p')])
  expect(firstTab(page, new Map())?.id).toBe('b')
  expect(firstTab(page, new Map([['p', 'c']]))?.id).toBe('c')
  expect(firstTab(page, new Map([['p', 'a']]))?.id).toBe('b')
  expect(firstTab(pagesOf([view('a', 'p', false)])[0], new Map())).toBeUndefined()
})
