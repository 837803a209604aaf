"""One run of torch-tb-profiler 0.4.3: directory -> what its pages ask for at first. Runs in the peer's environment."""

from __future__ import annotations

import json
import sys
import tempfile

OVERVIEW = ("overview",)
OPERATORS = (
    "operation_pie_by_name",
    "operation_table_by_name",
    "operation_pie_by_name_input",
    "operation_table_by_name_input",
)
KERNELS = ("kernel_pie", "kernel_table", "kernel_op_table", "tc_pie")


def main(folder: str) -> None:
    from torch_tb_profiler import io
    from torch_tb_profiler.profiler import RunLoader

    run = RunLoader("run", folder, io.Cache(tempfile.mkdtemp())).load()
    (profile,) = run.profiles.values()
    sizes = {}
    for view, names in {"overview": OVERVIEW, "operators": OPERATORS, "kernels": KERNELS}.items():
        sizes[view] = sum(len(json.dumps(getattr(profile, name))) for name in names)
    sizes["modules"] = len(json.dumps(profile.get_module_view()))
    print(json.dumps({"bytes": sizes}))


if __name__ == "__main__":
    main(sys.argv[1])
