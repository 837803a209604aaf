// Each test begins without a page; modules stay loaded from file to file.
import { afterEach } from 'vitest'
import { reset } from './page'

afterEach(reset)
