// The drawer about data quality.
import { Drawer } from '@mantine/core'
import type { Query } from '../api/client'
import type { IssueInfo, Profile, ReadInfo, SpanInfo } from '../api/payloads'
import { counted, format } from '../lib/format'
import { modelNoun } from '../lib/modelNouns'
import { useView } from '../state/data'
import { followLink } from '../state/links'
import { CopyIconButton, Placeholder } from '../widgets/basics'
import { NoticeList } from '../widgets/notices'
import { ProblemPanel } from '../widgets/problem'
import figuresCss from '../widgets/figures.module.css'
import textCss from '../widgets/text.module.css'
import css from './quality.module.css'

export function QualityDrawer(props: {
  open: boolean
  onClose: () => void
  profile: Profile
  span: SpanInfo | null
  base: Query
}) {
  const { open, onClose, profile, span, base } = props
  const resource = useView(profile.default_view, base, open)
  const every = Object.values(resource.data?.payloads ?? {})
  const quality = every.find((payload) => payload.kind === 'notices' && payload.about === 'data')
  return (
    <Drawer
      opened={open}
      onClose={onClose}
      position="right"
      size={520}
      title={`About this ${modelNoun(profile.model)}`}
      transitionProps={{ duration: 120 }}
      classNames={{ title: css.title }}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      {span && <Files span={span} />}
      <h3>Data quality</h3>
      {resource.problem && <ProblemPanel problem={resource.problem} />}
      {!resource.data && !resource.problem && <Placeholder height={120} />}
      {quality?.kind === 'notices' && (
        <NoticeList
          notices={quality.notices}
          onLink={(link) => {
            onClose()
            followLink(link)
          }}
          none="No data problems found."
        />
      )}
      {profile.read && <ReadFacts read={profile.read} />}
    </Drawer>
  )
}

const MOST_FILES = 20

function Files({ span: { files, format: what, size_bytes } }: { span: SpanInfo }) {
  const more = files.length - MOST_FILES
  return (
    <>
      <h3>{files.length === 1 ? 'File' : 'Files'}</h3>
      <ul className={css.files} data-testid="files">
        {files.slice(0, MOST_FILES).map((path) => (
          <li key={path}>
            <code>{path}</code>
            <CopyIconButton text={path} label="Copy path" />
          </li>
        ))}
        {more > 0 && <li>{counted(more, 'more file', 'more files')}</li>}
      </ul>
      <p className={textCss.mute}>
        {[what, format(size_bytes, 'bytes')].filter(Boolean).join(', ')}; paths are relative to the log directory.
      </p>
    </>
  )
}

const COUNTS: [keyof ReadInfo, string, string][] = [
  ['events_in_file', 'Read', 'All events in the file'],
  ['events_loaded', 'Used', 'Events used for the numbers'],
  ['events_repaired', 'Repaired', 'Events used after a repair'],
  ['events_dropped', 'Dropped', 'Events that cannot be used'],
  [
    'events_quarantined',
    'Quarantined',
    'Events with impossible times: counted and listed, but excluded from every window',
  ],
  ['events_unknown', 'Unknown', 'Events in categories unknown to this version'],
  ['events_other', 'Other', 'Names, flows and marks'],
  ['events_outside', 'Outside', 'Events outside the loaded window, so excluded from all numbers'],
]

function ReadFacts({ read }: { read: ReadInfo }) {
  return (
    <>
      <h3>How the file was read</h3>
      <dl className={figuresCss.list}>
        <div>
          <dt>Format</dt>
          <dd>{read.format}</dd>
        </div>
        <div>
          <dt>File size</dt>
          <dd>
            {format(read.file_bytes, 'bytes')}
            {read.text_bytes > read.file_bytes && <em>{format(read.text_bytes, 'bytes')} of text</em>}
          </dd>
        </div>
        <div>
          <dt>Complete</dt>
          <dd>{read.complete ? 'yes' : `no: the file is ${read.is_damaged ? 'damaged' : 'truncated'}`}</dd>
        </div>
        {(read.records ? COUNTS : []).map(([key, title, definition]) => (
          <div key={key}>
            <dt title={definition}>{title}</dt>
            <dd className={textCss.num}>{Number(read[key]).toLocaleString('en-US')}</dd>
          </div>
        ))}
      </dl>
      {read.issues.length > 0 && (
        <>
          <h3>Data issues</h3>
          <ul className={css.issues}>
            {read.issues.map((issue) => (
              <Issue key={`${issue.code} ${issue.outcome}`} issue={issue} />
            ))}
          </ul>
        </>
      )}
    </>
  )
}

function Issue({ issue }: { issue: IssueInfo }) {
  return (
    <li>
      <div>
        <b>{issue.count.toLocaleString('en-US')}</b> {issue.outcome === 'note' ? '' : `${issue.outcome} `}· {issue.text}
      </div>
      <div className={textCss.mute}>
        <code>{issue.code}</code>
        {issue.file && <> · {issue.file}</>}
        {issue.first_offset !== null && <> · first at byte {issue.first_offset.toLocaleString('en-US')}</>}
      </div>
      {issue.examples.slice(0, 3).map((example) => (
        <div key={example} className={css.example}>
          <code>{example}</code>
          <CopyIconButton text={example} label="Copy example" />
        </div>
      ))}
    </li>
  )
}
