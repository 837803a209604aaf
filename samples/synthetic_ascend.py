"""Invent profiles of a training on two Ascend NPUs (the folder `npu_training` has the program).

usage: python samples/synthetic_ascend.py OUT_DIR [--steps 2] [--seed 0] [--export text] [--truth FILE]
"""

from npu_training import main

if __name__ == "__main__":
    main()
