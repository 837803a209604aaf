"""Invent traces of trainings with faults whose cost is known (the folder `faults` has the simulator).

usage: python samples/synthetic_faults.py OUT_DIR [--fault NAME ...] [--seed 0] [--steps 6] [--size 1] [--ddp]
       [--host-bound] [--mended] [--plain]
"""

from faults import main

if __name__ == "__main__":
    main()
