// Mounts the page.
import './app/mantine.css'
import './app/tokens.css'
import './app/global.css'
import './app/print.css'
import { createRoot } from 'react-dom/client'
import { App } from './app/app'

const root = document.getElementById('root')
if (root) createRoot(root).render(<App />)
