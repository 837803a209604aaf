// The card of keyboard shortcuts.
import { Button, Kbd, Modal } from '@mantine/core'
import css from './shortcutList.module.css'

const KEYS: [string, [string[], string][]][] = [
  [
    'Everywhere',
    [
      [['?'], 'This help'],
      [['/'], 'Search'],
      [['1', '…', '9'], 'Open a view'],
      [['['], 'Previous step'],
      [[']'], 'Next step'],
    ],
  ],
  [
    'Timeline',
    [
      [['W', 'S'], 'Zoom in or out (Ctrl + wheel, pinch)'],
      [['A', 'D'], 'Move (drag, arrow keys, Shift + wheel)'],
      [['↑', '↓'], 'Scroll (wheel; the menu Display can make it zoom)'],
      [['0'], 'Show the full trace'],
      [['Z'], 'Undo zoom (Back)'],
      [['Enter'], 'Go to the next search hit (with Shift: to the previous hit)'],
      [['B'], 'Bookmark the time under the pointer'],
      [['Shift', 'drag'], 'Mark a range (or drag over the ruler)'],
      [['F'], 'Zoom to the selected event or range'],
      [['M'], 'Mark the selection or the visible range'],
      [['R'], 'Measure between two clicks'],
      [['Ctrl', 'click'], 'Select several events'],
      [['right click'], 'Menu of an event, a track or the background'],
      [['←', '→', '↑', '↓'], 'Select the neighboring event'],
      [['Shift', '←', '→'], 'Follow a flow arrow to the launch or to the launched work'],
      [['.', ','], 'Go to the next or previous event on the critical path'],
      [['Esc'], 'Clear the selection'],
    ],
  ],
  [
    'Active memory (when focused)',
    [
      [['W', 'S'], 'Zoom in or out (wheel; with Shift: zoom the bytes axis)'],
      [['A', 'D'], 'Move (drag, arrow keys)'],
      [['0'], 'Show all memory (double click)'],
      [['Z'], 'Undo zoom (Back)'],
      [['M'], 'Show memory at the pointer (Shift + click)'],
      [['↑', '↓'], 'Select the block above or below'],
      [['←', '→'], 'Select the block allocated before or after'],
      [['Esc'], 'Deselect the block'],
    ],
  ],
  [
    'Tables and trees',
    [
      [['↑', '↓'], 'Go to the previous or next row'],
      [['Enter'], 'Open a row'],
      [['C'], 'Copy the row'],
      [['←', '→'], 'Close or open a branch; go up or down in the call tree'],
      [['double click'], 'Copy the exact value'],
    ],
  ],
]

export function HelpModal({ open, onClose, onTour }: { open: boolean; onClose: () => void; onTour: () => void }) {
  return (
    <Modal
      opened={open}
      onClose={onClose}
      title="Keyboard shortcuts"
      size="lg"
      transitionProps={{ duration: 100 }}
      closeButtonProps={{ 'aria-label': 'Close' }}
    >
      <Button
        size="compact-sm"
        variant="default"
        onClick={() => {
          onClose()
          onTour()
        }}
      >
        Take the tour
      </Button>
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
