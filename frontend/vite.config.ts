import { relative, resolve } from 'node:path'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` asks a TensorBoard that runs already (make demo) for the data.
const tensorboard = process.env.TENSORBOARD ?? 'http://localhost:6006'
const proxied = { target: `${tensorboard}/data/plugin/torch_trace`, changeOrigin: true }

/** `widgets-table-grid` for `.grid` of widgets/table.module.css: no two files share a name, and a person can find the rule. */
const className = (name: string, file: string) =>
  `${relative(resolve(import.meta.dirname, 'src'), file.split('?')[0])
    .replace('.module.css', '')
    .replaceAll('/', '-')}-${name}`

// Tests take React's production build: it renders in a third of the time.
if (process.env.VITEST) process.env.NODE_ENV = 'production'

// TensorBoard imports static/index.js by name; all other files are hashed and immutable.
export default defineConfig({
  base: './',
  plugins: [react()],
  worker: { format: 'es' },
  css: { modules: { generateScopedName: className } },
  build: {
    outDir: '../tb_plugin/static',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 800,
    modulePreload: { polyfill: false },
    rollupOptions: {
      input: { page: 'index.html', index: 'src/index.ts' },
      preserveEntrySignatures: 'strict',
      output: {
        entryFileNames: (chunk) => (chunk.name === 'index' ? 'index.js' : 'assets/[name]-[hash].js'),
        chunkFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  server: {
    proxy: Object.fromEntries(
      ['runs', 'profile', 'view', 'table', 'tiles', 'download'].map((route) => [`/${route}`, proxied]),
    ),
  },
  test: {
    projects: [
      // What a test stubs, it takes back: modules are loaded once a process, not once a file.
      { extends: true, test: { name: 'parts', include: ['src/**/*.test.ts', 'src/**/*.test.tsx'], isolate: false } },
      {
        extends: true,
        test: {
          name: 'page',
          include: ['tests/**/*.test.tsx'],
          setupFiles: ['tests/setup.ts'],
          environment: 'happy-dom',
          environmentOptions: { happyDOM: { settings: { fetch: { disableSameOriginPolicy: true } } } },
          isolate: false,
          // Garbage of a page took a quarter of the time.
          execArgv: ['--max-semi-space-size=64'],
          testTimeout: 120_000,
        },
      },
    ],
  },
})
