"""Invent timelines of MegEngine trainings (the folder `megengine_training` has the program).

usage: python samples/synthetic_megengine.py OUT_DIR [--steps 3] [--ranks 1] [--blocks 2] [--seed 0] [--fault NAME ...]
       [--no-cupti] [--no-backtrace] [--scopes] [--as-recorded] [--plain] [--truth FILE]
"""

from megengine_training import main

if __name__ == "__main__":
    main()
