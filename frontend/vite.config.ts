import { relative, resolve } from 'node:path'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` takes data from a running TensorBoard (make demo).
const tensorboard = process.env.TENSORBOARD ?? 'http://localhost:6006'
const proxied = { target: `${tensorboard}/data/plugin/torch_trace`, changeOrigin: true }

/** `widgets-table-grid` for `.grid` of widgets/table.module.css: unique and easy to find. */
const className = (name: string, file: string) =>
  `${relative(resolve(import.meta.dirname, 'src'), file.split('?')[0])
    .replace('.module.css', '')
    .replaceAll('/', '-')}-${name}`

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
  test: { include: ['src/**/*.test.ts', 'src/**/*.test.tsx'] },
})
