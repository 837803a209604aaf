// Requests one after the other: each of several fast keys or clicks takes a step.
import { useCallback, useEffect, useRef, useState } from 'react'
import { useActivity } from './activity'

/** `take` queues a job; `isGone` tells whether the page was left. */
export function useTurns() {
  const turn = useRef(Promise.resolve())
  // Busy until the last answer arrives.
  const [jobs, setJobs] = useState(0)
  useActivity(jobs > 0)
  const gone = useRef(false)
  useEffect(() => {
    gone.current = false
    return () => {
      gone.current = true
    }
  }, [])
  const isGone = useCallback(() => gone.current, [])
  const take = useCallback((job: () => Promise<void>) => {
    setJobs((count) => count + 1)
    // The page's own requests report a lost server.
    turn.current = turn.current
      .then(job)
      .catch(() => {})
      .finally(() => setJobs((count) => count - 1))
  }, [])
  return { take, isGone }
}
