import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'
import { fakeServer } from './dev/fake.mjs'

// TensorBoard imports static/index.js by that name; all else is hashed and immutable.
export default defineConfig({
  base: './',
  plugins: [react(), fakeServer()],
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
  test: { include: ['src/**/*.test.ts', 'src/**/*.test.tsx'] },
})
