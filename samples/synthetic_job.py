"""Invent the traces of a training on 2 to 4,096 ranks, with a known truth (the folder `jobs` has the simulator). Needs numpy.

usage: python samples/synthetic_job.py OUT_DIR [--ranks 8] [--steps 4] [--layers 4] [--kernels 12] [--tp N] [--cp N]
       [--ep N] [--pp N] [--microbatches M] [--sharded] [--straggler RANK:CAUSE[:PATTERN[:MICROSECONDS]] ...]
       [--missing RANK:SHARE ...] [--late RANK:STEPS ...] [--absent RANK ...] [--slow-link NODE:NODE:FACTOR ...]
       [--offset-us N] [--drift-ppb N] [--jitter-ns N] [--no-sequence] [--naming megatron|mesh] [--one-base] [--old-names]
       [--only RANK ...] [--plain] [--seed N] [--truth FILE] [--matches]
"""

from jobs import main

if __name__ == "__main__":
    main()
