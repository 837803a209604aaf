// The page without profiles: scanning, empty, skipped files.
import { Drawer, Tooltip } from '@mantine/core'
import { useState } from 'react'
import type { Catalog } from '../api/payloads'
import { counted, formatTime } from '../lib/format'
import { CopyIconButton } from '../widgets/basics'
import { InfoIcon } from '../widgets/icons'
import basicsCss from '../widgets/basics.module.css'
import plainTableCss from '../widgets/plainTable.module.css'
import textCss from '../widgets/text.module.css'
import css from './emptyStates.module.css'
import navCss from './nav.module.css'

const HINT = `from torch.profiler import profile, schedule, tensorboard_trace_handler

with profile(
    schedule=schedule(wait=1, warmup=1, active=3),
    on_trace_ready=tensorboard_trace_handler("LOGDIR"),
    record_shapes=True,
    with_stack=True,
) as profiler:
    for batch in loader:
        train_step(batch)
        profiler.step()`

const MOST_PASSED = 50

export function SkippedFilesButton({ catalog }: { catalog: Catalog }) {
  const [open, setOpen] = useState(false)
  const count = catalog.skipped.length
  if (count === 0) return null
  return (
    <>
      <Tooltip label="Files in the log directory that are not profiles, with the reason" position="right">
        <button type="button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
          <InfoIcon />
          <span className={navCss.full}>{counted(count, 'file')} skipped</span>
          <span className={navCss.short}>{count} skipped</span>
        </button>
      </Tooltip>
      <Drawer
        opened={open}
        onClose={() => setOpen(false)}
        position="left"
        size={760}
        title="About the log directory"
        transitionProps={{ duration: 120 }}
        classNames={{ title: css.title }}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <SkippedFiles catalog={catalog} />
      </Drawer>
    </>
  )
}

function SkippedFiles({ catalog }: { catalog: Catalog }) {
  const folder = `${catalog.logdir.replace(/\/+$/, '')}/`
  if (catalog.skipped.length === 0) return null
  return (
    <>
      <h3>Skipped files</h3>
      <table className={`${plainTableCss.table} ${css.passed}`}>
        <thead>
          <tr>
            <th scope="col">File</th>
            <th scope="col" className={textCss.left}>
              Reason
            </th>
          </tr>
        </thead>
        <tbody>
          {catalog.skipped.slice(0, MOST_PASSED).map((item) => (
            <tr key={item.path}>
              <th scope="row" className={textCss.mono}>
                {item.path.startsWith(folder) ? item.path.slice(folder.length) : item.path}
              </th>
              <td className={textCss.left}>{item.reason}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {catalog.skipped.length > MOST_PASSED && (
        <p>
          {counted(catalog.skipped.length - MOST_PASSED, 'more file', 'more files')}: run torch-trace doctor to list
          all.
        </p>
      )}
    </>
  )
}

export function EmptyPanel({ catalog }: { catalog: Catalog }) {
  const hint = HINT.replace('LOGDIR', catalog.logdir.replaceAll('"', ''))
  return (
    <div className={basicsCss.panel}>
      <h2>{catalog.scanning ? 'Looking for traces…' : 'No trace found'}</h2>
      <p>
        Looked in <code>{catalog.logdir}</code>: {counted(catalog.scanned_files, 'file')}
        {catalog.last_scan_unix_ms !== null && <>, last at {formatTime(catalog.last_scan_unix_ms)}</>}. The page
        refreshes automatically.
      </p>
      <p>
        Traces of torch.profiler end in <code>.pt.trace.json</code> or <code>.json.gz</code>, memory snapshots in{' '}
        <code>.pickle</code>. Folders are searched, too.
      </p>
      <SkippedFiles catalog={catalog} />
      <h3>Record a trace</h3>
      <div className={css.code}>
        <pre>{hint}</pre>
        <CopyIconButton text={hint} label="Copy code" />
      </div>
    </div>
  )
}
