// Runs inside the page: moves a canvas (by default the timeline) for `frames` frames each way and gives the time of every frame.
// One real event a frame, sent from requestAnimationFrame: what a person's hand does, at the screen's pace.
async ({ at, spanNs, targetNs, frames, rest, selector = '[data-testid=timeline] canvas', gutter = 212 }) => {
  const canvas = document.querySelector(selector)
  const box = canvas.getBoundingClientRect()
  // The gutter has its own wheel; the place is a share of what shows time.
  const x = box.left + gutter + (box.width - gutter) * at
  const y = box.top + box.height * 0.6
  const send = (Kind, type, more) =>
    canvas.dispatchEvent(new Kind(type, { bubbles: true, cancelable: true, clientX: x, clientY: y, ...more }))
  const hand = (type, clientX) =>
    send(PointerEvent, type, { clientX, pointerId: 1, pointerType: 'mouse', isPrimary: true, buttons: 1 })
  // With Cmd the wheel zooms in both styles of navigation. 0.0022 a pixel of the wheel is the page's exponent; the caller looks at where the window has come.
  const notch = Math.log(spanNs / targetNs) / frames / 0.0022
  const left = box.left + gutter + 20
  const right = box.right - 20
  let hold = null
  const drag = (i) => {
    if (hold === null || hold - 30 < left) {
      if (hold !== null) hand('pointerup', hold)
      hold = right
      hand('pointerdown', hold)
    }
    hold -= 30
    hand('pointermove', hold)
    if (i === frames - 1) hand('pointerup', hold)
  }
  const phases = [
    // What the machine gives a page that does nothing.
    ['still', () => {}],
    ['zoom in', () => send(WheelEvent, 'wheel', { deltaY: -notch, metaKey: true })],
    ['pan', drag],
    ['zoom out', () => send(WheelEvent, 'wheel', { deltaY: notch, metaKey: true })],
  ]
  const frame = () => new Promise(requestAnimationFrame)
  const answer = []
  let before = await frame()
  for (const [name, act] of phases) {
    // What was asked for on the way arrives after it; it may cost a frame as well.
    const after = name === 'still' ? [] : [[`after ${name}`, rest]]
    for (const [kind, count] of [[name, frames], ...after]) {
      const times = []
      for (let i = 0; i < count; i++) {
        if (kind === name) act(i)
        const now = await frame()
        times.push(now - before)
        before = now
      }
      answer.push([kind, times])
    }
    if (after.length > 0) answer.at(-1).push(document.querySelector('[data-testid=timeline-foot]')?.textContent ?? '')
  }
  return answer
}
