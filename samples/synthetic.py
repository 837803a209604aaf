"""Invent Kineto GPU traces whose right answers are known (the folder `gpu_training` has the program).

usage: python samples/synthetic.py OUT_DIR [--steps 6] [--ranks 1] [--streams 2] [--scale 1] [--arch cuda|rocm]
       [--seed 0] [--layers 4] [--tensor-parallel 1] [--slow-rank R] [--slow-factor 1.25]
       [--missing-rank R] [--missing-share 0.1] [--late-rank R] [--late-steps 1] [--absent-rank R ...] [--epoch-us] [--plain]
       [--truth FILE]
"""

from gpu_training import main

if __name__ == "__main__":
    main()
