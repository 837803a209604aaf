// The keyboard's card.
import { Kbd, Modal } from '@mantine/core'
import css from './help.module.css'

const KEYS: [string, [string[], string][]][] = [
  [
    'Everywhere',
    [
      [['?'], 'This help'],
      [['/'], 'Search'],
      [['1', '…', '9'], 'Open a view'],
      [['['], 'Step before'],
      [[']'], 'Step after'],
    ],
  ],
  [
    'Timeline',
    [
      [['W', 'S'], 'Zoom in, out (wheel)'],
      [['A', 'D'], 'Move (drag, arrow keys)'],
      [['↑', '↓'], 'Scroll (Shift + wheel)'],
      [['0'], 'Whole trace'],
      [['Z'], 'Undo the last zoom or jump (Back)'],
      [['Enter'], 'Next hit of the search; with Shift the one before'],
      [['B'], 'Bookmark the time under the pointer'],
      [['Shift', 'drag'], 'Mark a range (or drag over the ruler)'],
      [['F'], 'Fit the selected event, or the range'],
      [['M'], 'Mark the selected event, or all in sight'],
      [['←', '→', '↑', '↓'], 'From the selected event to its neighbours'],
      [['Shift', '←', '→'], 'Along an arrow: to what launched it, to what it launched'],
      [['Esc'], 'Clear the selection'],
    ],
  ],
  [
    'Active memory (with the focus on it)',
    [
      [['W', 'S'], 'Zoom in, out (wheel; with Shift the bytes)'],
      [['A', 'D'], 'Move (drag, arrow keys)'],
      [['0'], 'Everything (double click)'],
      [['Z'], 'Undo the last zoom or jump (Back)'],
      [['M'], 'Look at the moment under the pointer (Shift + click)'],
      [['↑', '↓'], 'From the kept block to the one above, below'],
      [['←', '→'], 'To the one allocated before, after it'],
      [['Esc'], 'Let the block go'],
    ],
  ],
  [
    'Tables and trees',
    [
      [['↑', '↓'], 'Row before, after'],
      [['Enter'], 'Open a row'],
      [['C'], 'Copy the row'],
      [['←', '→'], 'Close, open a branch; up, down in the call tree'],
      [['double click'], 'Copy the exact value'],
    ],
  ],
]

export function HelpModal({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Modal
      opened={open}
      onClose={onClose}
      title="Keyboard shortcuts"
      size="lg"
      transitionProps={{ duration: 100 }}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <div className={css.keys}>
        {KEYS.map(([title, keys]) => (
          <section key={title}>
            <h3>{title}</h3>
            <dl>
              {keys.map(([names, text]) => (
                <div key={text}>
                  <dt>
                    {names.map((name) => (
                      <Kbd key={name} size="xs">
                        {name}
                      </Kbd>
                    ))}
                  </dt>
                  <dd>{text}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Modal>
  )
}
