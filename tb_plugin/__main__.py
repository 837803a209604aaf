"""``python -m tb_plugin`` is ``torch-trace``."""

import sys

from tb_plugin.cli import main

if __name__ == "__main__":
    sys.exit(main())
