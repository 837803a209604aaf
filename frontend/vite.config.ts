import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// `npm run dev` asks a TensorBoard that runs already (make demo) for the data.
const tensorboard = process.env.TENSORBOARD ?? 'http://localhost:6006'
const proxied = { target: `${tensorboard}/data/plugin/torch_trace`, changeOrigin: true }

// TensorBoard imports static/index.js by that name; all else is hashed and immutable.
export default defineConfig({
  base: './',
  plugins: [react()],
  worker: { format: 'es' },
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
