// Each test begins without a page; modules stay loaded from file to file.
import { afterEach } from 'vitest'
import { setPrefs } from '../src/state/prefs'
import { reset } from './page'

afterEach(reset)

// The tour starts from the help only.
setPrefs({ toured: true })
