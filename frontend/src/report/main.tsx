// Mounts a report: one file with its data, which asks no server.
import '../app/mantine.css'
import '../app/tokens.css'
import '../app/global.css'
import '../app/print.css'
import { MantineProvider } from '@mantine/core'
import { createRoot } from 'react-dom/client'
import { theme, useScheme } from '../app/theme'
import { setDeviceWord } from '../lib/deviceWords'
import { usePrinting } from '../widgets/usePrinting'
import { readReport } from './data'
import { ReportPage } from './reportPage'

const report = readReport()
if (report) setDeviceWord(report.profile.device_word)

function App() {
  const scheme = useScheme()
  const isPrinting = usePrinting()
  return (
    <MantineProvider theme={theme} forceColorScheme={isPrinting ? 'light' : scheme}>
      {report ? (
        <ReportPage report={report} />
      ) : (
        <main>
          <p>This file is a template without data. Write a report with torch-trace report PATH --html FILE.</p>
        </main>
      )}
    </MantineProvider>
  )
}

const root = document.getElementById('root')
if (root) createRoot(root).render(<App />)
