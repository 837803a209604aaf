"""``python -m tests.golden`` rewrites the expected answers."""

from tests.golden.rewrite import main

main()
