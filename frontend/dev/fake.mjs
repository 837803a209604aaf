// A stand-in for the Python server while working on the page (`npm run dev`). Never part of the bundle.
// With TORCH_TRACE_SERVER=http://host:port/data/plugin/torch_trace the real server answers instead.
import { catalog, events, kernels, makeTimeline, modules, operators, overview, profileOf, tableOf } from './data.mjs'

const started = new Map()

function answer(path, query) {
  const run = query.get('run') ?? 'resnet50_num_workers_0'
  if (path === 'runs') return [200, catalog()]
  if (path === 'profile') {
    if (run === 'slow_to_read') {
      const since = started.get(run) ?? Date.now()
      started.set(run, since)
      const fraction = Math.min(1, (Date.now() - since) / 20000)
      const ready = fraction >= 1
      return [ready ? 200 : 202, profileOf(run, ready ? 'ready' : 'loading', fraction)]
    }
    if (run === 'broken_run') return [200, profileOf(run, 'failed', 0)]
    return [200, profileOf(run, 'ready', 1)]
  }
  if (path === 'view/overview') return [200, overview(query.get('steps'))]
  if (path === 'view/timeline') return [200, makeTimeline(query)]
  if (path === 'view/operators') return [200, operators()]
  if (path === 'view/kernels') return [200, kernels()]
  if (path === 'view/modules') return [200, modules()]
  if (path === 'view/events') return [200, events(query)]
  const table = /^table\/(\w+)\/(\w+)$/.exec(path)
  if (table) return tableOf(table[1], table[2], query)
  return [404, { error: { what: `There is no ${path}.`, where: path, do: 'Look into docs/http.md.' } }]
}

const ROUTES = /^\/(runs|profile|view\/|table\/|download\/)/

export function fakeServer() {
  return {
    name: 'fake-server',
    apply: 'serve',
    configureServer(server) {
      server.middlewares.use(async (request, response, next) => {
        const url = new URL(request.url, 'http://local')
        if (!ROUTES.test(url.pathname)) return next()
        const real = process.env.TORCH_TRACE_SERVER
        if (real) {
          const got = await fetch(`${real}${request.url}`)
          response.statusCode = got.status
          response.setHeader('content-type', got.headers.get('content-type') ?? 'application/json')
          response.end(Buffer.from(await got.arrayBuffer()))
          return
        }
        const [status, body] = answer(url.pathname.slice(1), url.searchParams)
        await new Promise((done) => setTimeout(done, 80))
        response.statusCode = status
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify(body))
      })
    },
  }
}
