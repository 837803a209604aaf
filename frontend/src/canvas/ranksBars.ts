// The two bars in the head of a section: what computes or copies above, what communicates below.
export const BUSY = { top: 4, height: 10, gap: 2 }
/** Pixels from the top of a section to its bar of communication. */
export const COMMUNICATION = BUSY.top + BUSY.height + BUSY.gap
