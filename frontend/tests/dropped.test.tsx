// Files dropped on the page: sent to `torch-trace view`, explained in TensorBoard.
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Catalog } from '../src/api/payloads'
import { all, button, byTest, click, named, one, open, patch, settle, soon, state, textOf, user } from './page'

const START = { run: 'twice', worker: 'rank0', span: '2' }
const PROFILE = { run: 'other', worker: 'rank0', span: '1' }

/** What the page sends. */
class FakeRequest {
  static sent: FakeRequest[] = []
  upload: { onprogress?: (event: { loaded: number; total: number }) => void } = {}
  url = ''
  status = 0
  response: unknown = null
  onload = () => {}
  onerror = () => {}
  onabort = () => {}
  body: File | null = null
  open(method: string, url: string) {
    this.url = `${method} ${new URL(url).pathname}${new URL(url).search}`
  }
  send(body: File) {
    this.body = body
    FakeRequest.sent.push(this)
  }
  abort() {
    this.onabort()
  }
  answer(status: number, response: unknown) {
    Object.assign(this, { status, response })
    this.onload()
  }
}

const original = globalThis.XMLHttpRequest
beforeEach(() => {
  FakeRequest.sent = []
  globalThis.XMLHttpRequest = FakeRequest as never
})
afterEach(() => {
  globalThis.XMLHttpRequest = original
})

function accept(limit: number): void {
  patch((path, body: Catalog) => (path === 'runs' ? { ...body, upload_limit_bytes: limit } : undefined))
}

function drag(kind: string, files: File[], types = ['Files'], isFolder = false): Event {
  const items = files.map(() => ({ webkitGetAsEntry: () => ({ isDirectory: isFolder }) }))
  const event = new Event(kind, { bubbles: true, cancelable: true })
  Object.assign(event, { dataTransfer: { types, files, items }, relatedTarget: null })
  document.body.dispatchEvent(event)
  return event
}

const file = (name = 'a.pt.trace.json', text = '{}') => new File([text], name)
const sent = (count: number) =>
  soon(() => {
    expect(FakeRequest.sent).toHaveLength(count)
    return FakeRequest.sent[count - 1]
  })
const note = (id: string) => soon(() => byTest(id))

test('a dropped file is sent and its profile opens', async () => {
  accept(1000)
  await open(START)
  drag('dragenter', [])
  expect(textOf(await note('drop-zone'))).toMatch(/^Drop a trace file to open it/)
  expect(drag('drop', [file('x y.json')]).defaultPrevented).toBe(true)
  const request = await sent(1)
  expect(request.url).toBe('PUT /files?name=x+y.json')
  await soon(() => expect(all('[data-testid=drop-zone]')).toEqual([]))
  request.upload.onprogress?.({ loaded: 1, total: 4 })
  await soon(() => expect(textOf(byTest('upload'))).toContain('25 %'))
  request.answer(200, PROFILE)
  await soon(() => expect(state()).toMatchObject(PROFILE))
  await settle()
  expect(all('[data-testid=upload]')).toEqual([])
})

test('the first of several files opens after all are sent', async () => {
  accept(1000)
  await open(START)
  drag('drop', [file('a.json'), file('b.json')])
  ;(await sent(1)).answer(200, PROFILE)
  await soon(() => expect(textOf(byTest('upload'))).toContain('b.json2 of 2'))
  ;(await sent(2)).answer(200, { run: 'job', worker: 'rank0', span: '1' })
  await soon(() => expect(state()).toMatchObject(PROFILE))
  await settle()
})

test('the keyboard has a button', async () => {
  accept(1000)
  await open(START)
  const input = one('input[type=file]') as HTMLInputElement
  let asked = 0
  input.addEventListener('click', () => asked++)
  button('Open a file').focus()
  await user.keyboard('{Enter}')
  expect(asked).toBe(1)
  await user.upload(input, file('b.json'))
  expect((await sent(1)).url).toBe('PUT /files?name=b.json')
  await click(button('Cancel'))
  expect(all('[data-testid=upload]')).toEqual([])
  expect(all('[data-testid=drop-problem]')).toEqual([])
  expect(state()).toMatchObject(START)
})

test('problems are one sentence that can be closed', async () => {
  accept(1000)
  await open(START)
  drag('drop', [file('notes.txt')])
  ;(await sent(1)).answer(422, { error: { what: 'The file is no trace.', where: 'notes.txt', do: 'Record one.' } })
  expect(textOf(await note('drop-problem'))).toBe('The file is no trace. Record one. notes.txt')
  await click(button('Close', byTest('drop-problem')))
  expect(all('[data-testid=drop-problem]')).toEqual([])
  drag('drop', [file()])
  ;(await sent(2)).onerror()
  expect(textOf(await note('drop-problem'))).toContain('The upload was interrupted.')
  drag('drop', [file('large.json', 'x'.repeat(1001))])
  await soon(() => expect(textOf(byTest('drop-problem'))).toContain('larger than 1,000 B'))
  drag('drop', [file('runs')], ['Files'], true)
  await soon(() => expect(textOf(byTest('drop-problem'))).toContain('A folder cannot be dropped.'))
  expect(FakeRequest.sent).toHaveLength(2)
})

test('TensorBoard says why it opens no file, and keeps the page', async () => {
  await open(START)
  expect(named('button', 'Open a file')).toEqual([])
  expect(drag('dragover', []).defaultPrevented).toBe(true)
  expect(textOf(await note('drop-zone'))).toContain('only files of its log directory')
  drag('dragleave', [])
  await soon(() => expect(all('[data-testid=drop-zone]')).toEqual([]))
  drag('drop', [file()])
  expect(textOf(await note('drop-problem'))).toContain('or run torch-trace view FILE')
  expect(FakeRequest.sent).toEqual([])
})

test('other things that are dragged are left alone', async () => {
  accept(1000)
  await open(START)
  for (const kind of ['dragenter', 'dragover', 'drop'])
    expect(drag(kind, [], ['text/plain']).defaultPrevented).toBe(false)
  await settle()
  expect(all('[data-testid=drop-zone], [data-testid=upload]')).toEqual([])
})
