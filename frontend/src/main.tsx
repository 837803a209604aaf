// Mounts the page.
import './app/mantine.css'
import './app/tokens.css'
import './app/global.css'
import './app/print.css'
import { createRoot } from 'react-dom/client'
import { App } from './app/app'
import { start } from './app/start'

const root = document.getElementById('root')
if (root) start().finally(() => createRoot(root).render(<App />))
