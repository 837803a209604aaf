import { createHash } from 'node:crypto'
import { defineConfig, mergeConfig, type Plugin } from 'vite'
import page from './vite.config.ts'

const PAGE = 'report.html'

/** Puts script and styles into the page, whose policy allows this one script and no request. */
const singleFile: Plugin = {
  name: 'single-file',
  enforce: 'post',
  generateBundle(_, bundle) {
    const files = Object.values(bundle)
    const html = files.find((file) => file.type === 'asset' && file.fileName === PAGE)
    const scripts = files.flatMap((file) => (file.type === 'chunk' ? file.code : []))
    const styles = files.flatMap((file) =>
      file.type === 'asset' && file.fileName.endsWith('.css') ? String(file.source) : [],
    )
    if (html?.type !== 'asset' || scripts.length !== 1) this.error('The report must have one page and one script.')
    const script = scripts[0].replace(/<\/(?=script)/gi, '<\\/').replaceAll('<!--', '<\\!--')
    const hash = createHash('sha256').update(script).digest('base64')
    const policy = `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'`
    html.source = String(html.source)
      .replace(/\s*<script type="module"[^>]*><\/script>/, '')
      .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
      .replace(
        '<meta charset="utf-8" />',
        (tag) => `${tag}<meta http-equiv="Content-Security-Policy" content="${policy}" />`,
      )
      .replace('</head>', () => `<style>${styles.join('')}</style></head>`)
      .replace('</body>', () => `<script>${script}</script></body>`)
    for (const file of files) if (file !== html) delete bundle[file.fileName]
  },
}

// A second build: the page builds first, and empties the folder.
export default mergeConfig(
  { ...page, build: undefined },
  defineConfig({
    plugins: [singleFile],
    build: {
      outDir: '../tb_plugin/static',
      emptyOutDir: false,
      assetsInlineLimit: Number.MAX_SAFE_INTEGER,
      cssCodeSplit: false,
      chunkSizeWarningLimit: 4000,
      modulePreload: false,
      rollupOptions: {
        input: PAGE,
        output: { format: 'iife', codeSplitting: false },
        checks: { emptyImportMeta: false },
      },
    },
  }),
)
