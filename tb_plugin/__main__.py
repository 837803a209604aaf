"""Entry point of ``python -m tb_plugin``, the same as ``torch-trace``."""

import sys

from tb_plugin.cli import main

if __name__ == "__main__":
    sys.exit(main())
