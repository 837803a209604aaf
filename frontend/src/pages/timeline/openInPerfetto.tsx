// The dialog "Open in Perfetto".
import { Button, Modal, SegmentedControl } from '@mantine/core'
import { useState } from 'react'
import { getWindow, type Query, windowUrl } from '../../api/client'
import type { Problem, Profile } from '../../api/payloads'
import type { Range } from '../../canvas/viewport'
import { format } from '../../lib/format'
import { HandoverError, handOver } from '../../lib/perfetto'
import { problemOf } from '../../state/data'
import { DownloadIcon } from '../../widgets/icons'
import { ProblemPanel } from '../../widgets/problem'
import textCss from '../../widgets/text.module.css'
import css from './openInPerfetto.module.css'

type Part = 'shown' | 'all'
type State = { is: 'idle' | 'busy' | 'done' } | { is: 'failed'; problem: Problem }

interface Props {
  /** Address of the Perfetto UI; empty if the setting is invalid. */
  address: string
  /** The profile, without its chosen steps. */
  base: Query
  shown: Range
  all: Range
  profile: Profile
}

export function OpenInPerfetto(props: Props) {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button size="sm" variant="default" onClick={() => setOpen(true)}>
        Open in Perfetto
      </Button>
      <Modal
        opened={open}
        onClose={() => setOpen(false)}
        title="Open in Perfetto"
        transitionProps={{ duration: 100 }}
        closeButtonProps={{ 'aria-label': 'Close' }}
      >
        <Choice {...props} />
      </Modal>
    </>
  )
}

function Choice({ address, base, shown, all, profile }: Props) {
  const [part, setPart] = useState<Part>('shown')
  const [state, setState] = useState<State>({ is: 'idle' })
  const whole = profile.window ? 'The full window' : 'The full trace'
  const query = part === 'all' ? base : { ...base, start_ns: shown.start, end_ns: shown.end }
  const span = part === 'all' ? all.end - all.start : shown.end - shown.start
  const name = `${profile.run} ${profile.worker}`
  const go = async () => {
    setState({ is: 'busy' })
    try {
      await handOver(window, address, {
        title: `${name}, ${part === 'all' ? whole.toLowerCase().slice(4) : format(span, 'ns')}`,
        fileName: `${profile.worker}.json.gz`,
        download: (signal) => getWindow(query, signal),
      })
      setState({ is: 'done' })
    } catch (error) {
      setState({ is: 'failed', problem: error instanceof HandoverError ? error.problem : problemOf(error) })
    }
  }
  return (
    <div className={css.perfetto}>
      <SegmentedControl
        fullWidth
        size="sm"
        aria-label="Range to open"
        value={part}
        onChange={(next) => {
          setPart(next as Part)
          setState({ is: 'idle' })
        }}
        data={[
          { value: 'shown', label: 'The visible window' },
          { value: 'all', label: whole },
        ]}
      />
      <p>
        <b>{format(span, 'ns')}</b>
        {part === 'all' && profile.read && <Size profile={profile} />}. All events are included; none are merged.
      </p>
      {address ? (
        <p className={textCss.mute}>
          Perfetto opens in a new tab from <span className={textCss.mono}>{new URL(address).origin}</span> and runs in
          your browser. The trace goes to that tab only. Perfetto may ask you to trust this page.
        </p>
      ) : (
        <p role="alert">TORCH_TRACE_PERFETTO is not an http or https address. Correct it and restart TensorBoard.</p>
      )}
      {state.is === 'failed' && <ProblemPanel problem={state.problem} />}
      <p role="status" className={textCss.mute}>
        {state.is === 'busy' && 'Preparing the trace and waiting for Perfetto…'}
        {state.is === 'done' && 'Perfetto has the trace.'}
      </p>
      <div className={textCss.row}>
        <Button onClick={go} disabled={address === ''} loading={state.is === 'busy'}>
          Open in Perfetto
        </Button>
        <Button component="a" href={windowUrl(query)} download variant="default" leftSection={<DownloadIcon />}>
          Download
        </Button>
      </div>
    </div>
  )
}

/** The file's size; the trace's size in memory is unknown beforehand. */
function Size({ profile: { read, window: part } }: { profile: Profile }) {
  if (!read) return null
  return (
    <>
      , {read.events_loaded.toLocaleString('en-US')} events{' '}
      <span className={textCss.mute}>
        ({part && 'of a '}file of {format(read.file_bytes, 'bytes')}, {format(read.text_bytes, 'bytes')} of text)
      </span>
    </>
  )
}
