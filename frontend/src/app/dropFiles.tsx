// Opening a file of the user: dropped on the page, or chosen with a button.
import { Alert, Button, Progress } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { uploadFile } from '../api/client'
import type { Catalog, Problem, ProfileName } from '../api/payloads'
import { format } from '../lib/format'
import { spanOf } from '../lib/profiles'
import { useActivity } from '../state/activity'
import { problemOf } from '../state/data'
import { openProfile } from '../state/urlState'
import { OpenFileIcon } from '../widgets/icons'
import basicsCss from '../widgets/basics.module.css'
import textCss from '../widgets/text.module.css'
import css from './dropFiles.module.css'
import navCss from './nav.module.css'

const INSTEAD = 'Copy the file into the log directory, or run torch-trace view FILE.'

interface Upload {
  name: string
  /** Such as "2 of 3"; empty for one file. */
  place: string
  fraction: number
  abort: () => void
}

export interface DroppedFiles {
  isOver: boolean
  upload: Upload | null
  problem: Problem | null
  /** Whether the server accepts files. */
  isOn: boolean
  open: (files: readonly File[]) => void
  close: () => void
}

/** Uploads files, and opens the first one as soon as the catalog lists it. */
export function useDroppedFiles(catalog: Catalog | null, refresh: () => void): DroppedFiles {
  const [isOver, setOver] = useState(false)
  const [upload, setUpload] = useState<Upload | null>(null)
  const [problem, setProblem] = useState<Problem | null>(null)
  const [wanted, setWanted] = useState<ProfileName | null>(null)
  useActivity(upload !== null || wanted !== null)
  useEffect(() => {
    if (!wanted || !spanOf(catalog, wanted)) return
    setWanted(null)
    openProfile({ run: wanted.run, worker: wanted.worker, span: wanted.span })
  }, [catalog, wanted])

  const open = async (files: readonly File[]) => {
    if (!catalog || upload) return
    const refusal = refusalOf(files, catalog)
    setProblem(refusal)
    if (refusal) return
    const control = new AbortController()
    let first: ProfileName | null = null
    for (const [at, file] of files.entries()) {
      const place = files.length > 1 ? `${at + 1} of ${files.length}` : ''
      const show = (fraction: number) => setUpload({ name: file.name, place, fraction, abort: () => control.abort() })
      show(0)
      try {
        const name = await uploadFile(file, show, control.signal)
        first ??= name
      } catch (error) {
        if (!control.signal.aborted) setProblem(problemOf(error))
        break
      }
    }
    setUpload(null)
    if (!first) return
    setWanted(first)
    refresh()
  }
  const latest = useRef(open)
  latest.current = open
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false
    const over = (event: DragEvent) => {
      if (!hasFiles(event)) return
      // Otherwise the browser leaves the page and shows the file.
      event.preventDefault()
      setOver(true)
    }
    const leave = (event: DragEvent) => event.relatedTarget === null && setOver(false)
    const drop = (event: DragEvent) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(false)
      latest.current(filesOf(event.dataTransfer as DataTransfer))
    }
    window.addEventListener('dragenter', over)
    window.addEventListener('dragover', over)
    window.addEventListener('dragleave', leave)
    window.addEventListener('drop', drop)
    return () => {
      window.removeEventListener('dragenter', over)
      window.removeEventListener('dragover', over)
      window.removeEventListener('dragleave', leave)
      window.removeEventListener('drop', drop)
    }
  }, [])
  const isOn = (catalog?.upload_limit_bytes ?? 0) > 0
  return { isOver, upload, problem, isOn, open, close: () => setProblem(null) }
}

/** Files of a drop; none if a folder was dropped. */
function filesOf(data: DataTransfer): File[] {
  const hasFolder = [...data.items].some((item) => item.webkitGetAsEntry?.()?.isDirectory)
  return hasFolder ? [] : [...data.files]
}

function refusalOf(files: readonly File[], catalog: Catalog): Problem | null {
  const limit = catalog.upload_limit_bytes
  if (limit === 0)
    return { what: 'This page opens only files of its log directory.', where: catalog.logdir, do: INSTEAD }
  if (files.length === 0)
    return {
      what: 'A folder cannot be dropped.',
      where: '',
      do: 'Drop the files in it, or run torch-trace view FOLDER.',
    }
  const large = files.find(({ size }) => size > limit)
  return large
    ? {
        what: `The file is larger than ${format(limit, 'bytes')}.`,
        where: large.name,
        do: 'Run torch-trace view FILE, or increase TORCH_TRACE_UPLOAD_MB.',
      }
    : null
}

/** A note while a file is over the page, and the state of the upload. */
export function DropNotes({ files }: { files: DroppedFiles }) {
  const { isOver, upload, problem, isOn, close } = files
  return (
    <>
      {isOver && (
        <div className={css.overlay} data-testid="drop-zone">
          <div>
            <b>{isOn ? 'Drop a trace file to open it' : 'This page opens only files of its log directory'}</b>
            <span>{isOn ? 'The file is sent only to the server of this page.' : INSTEAD}</span>
          </div>
        </div>
      )}
      {problem && (
        <Alert
          color="red"
          variant="light"
          role="alert"
          className={css.note}
          data-testid="drop-problem"
          withCloseButton
          closeButtonLabel="Close"
          onClose={close}
        >
          <b>{problem.what}</b> {problem.do} <span className={textCss.mono}>{problem.where}</span>
        </Alert>
      )}
      {upload && (
        <div className={`${basicsCss.panel} ${css.note}`} role="status" data-testid="upload">
          <div className={css.line}>
            <b>{upload.fraction < 1 ? 'Uploading' : 'Checking'}</b>
            <span className={textCss.mono}>{upload.name}</span>
            {upload.place && <span>{upload.place}</span>}
            <span className={textCss.num}>{Math.floor(upload.fraction * 100)} %</span>
            <Button size="xs" variant="default" onClick={upload.abort}>
              Cancel
            </Button>
          </div>
          <Progress value={upload.fraction * 100} size="sm" aria-label={`Uploading ${upload.name}`} />
        </div>
      )}
    </>
  )
}

/** For the keyboard, and for those who do not drag. */
export function OpenFileButton({ files }: { files: DroppedFiles }) {
  const input = useRef<HTMLInputElement>(null)
  if (!files.isOn) return null
  return (
    <>
      <button type="button" aria-label="Open a file" onClick={() => input.current?.click()}>
        <OpenFileIcon />
        <span className={navCss.full}>Open a file</span>
        <span className={navCss.short}>Open file</span>
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Trace files"
        onChange={(event) => {
          const chosen = [...(event.currentTarget.files ?? [])]
          // The same file can be chosen again.
          event.currentTarget.value = ''
          if (chosen.length > 0) files.open(chosen)
        }}
      />
    </>
  )
}
