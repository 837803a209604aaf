// A call stack with copy and editor links.
import { ActionIcon, Popover, TextInput, Tooltip } from '@mantine/core'
import { useState } from 'react'
import { type CodeFrame, canOpen, editorUrl, parseStack } from '../lib/frames'
import { localPath } from '../lib/localPaths'
import { setPrefs, usePrefs } from '../state/prefs'
import { CopyIconButton } from '../widgets/basics'
import { EditorIcon, GearIcon } from '../widgets/icons'
import textCss from '../widgets/text.module.css'
import css from './stack.module.css'

/** VS Code's TensorBoard web view opens the file on this message. */
function tellHost(frame: CodeFrame): void {
  if (window.top === window.self || frame.path === null || frame.line === null) return
  window.parent.parent.postMessage({ filename: frame.path, line: frame.line - 1 }, '*')
}

export function StackFrames({ stack }: { stack: string }) {
  const { editor } = usePrefs()
  const frames = parseStack(stack)
  return (
    <ol className={css.stack}>
      {frames.map((frame, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a recursive stack repeats its frames
        <li key={i}>
          <FrameLine frame={frame} editor={editor} />
        </li>
      ))}
    </ol>
  )
}

function FrameLine({ frame, editor }: { frame: CodeFrame; editor: string }) {
  if (frame.path === null || !canOpen(frame)) return <span className={textCss.mute}>{frame.text}</span>
  const place = `${frame.path}:${frame.line}`
  const local = { ...frame, path: localPath(frame.path) }
  const url = editorUrl(editor, local)
  const cut = frame.path.lastIndexOf('/') + 1
  return (
    <>
      <b>{frame.name || '(module)'}</b>
      <span className={css.path} title={place}>
        <span className={textCss.mute}>{frame.path.slice(0, cut)}</span>
        {frame.path.slice(cut)}:{frame.line}
      </span>
      <CopyIconButton text={place} label="Copy path:line" />
      {url && (
        <Tooltip label={local.path === frame.path ? 'Open in editor' : `Open ${local.path} in editor`}>
          <ActionIcon
            component="a"
            href={url}
            size="sm"
            variant="subtle"
            color="gray"
            aria-label={`Open ${local.path}:${frame.line} in the editor`}
            onClick={(event) => {
              event.stopPropagation()
              tellHost(local)
            }}
          >
            <EditorIcon />
          </ActionIcon>
        </Tooltip>
      )}
    </>
  )
}

/** Address of the editor: a template with {path} and {line}. */
export function EditorSetting() {
  const [text, setText] = useState(usePrefs().editor)
  const valid =
    /^[a-z][a-z0-9+.-]*:/i.test(text) && text.includes('{path}') && !/^(javascript|data|vbscript|blob):/i.test(text)
  return (
    <Popover width={360} position="bottom-end" trapFocus withinPortal>
      <Popover.Target>
        <Tooltip label="Choose the editor that opens frames">
          <ActionIcon variant="subtle" color="gray" size="sm" aria-label="Editor setting">
            <GearIcon />
          </ActionIcon>
        </Tooltip>
      </Popover.Target>
      <Popover.Dropdown>
        <TextInput
          label="Editor URL"
          description="{path} and {line} are filled in. For relative paths, put the folder before {path}. Stored in this browser."
          value={text}
          error={valid ? null : 'Needs a scheme and {path}, such as vscode://file/{path}:{line}'}
          onChange={(event) => setText(event.currentTarget.value)}
          onBlur={() => valid && setPrefs({ editor: text })}
        />
      </Popover.Dropdown>
    </Popover>
  )
}
