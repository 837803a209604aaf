"""Owner of a stack frame: framework, library or user code.

Frames have the form ``path(line): function``. The profiler strips ``sys.path`` entries from paths, so the first
folder of ``torch/nn/functional.py`` identifies the framework. In such paths, installed packages look like the
user's packages. ``THIRD_PARTY_PACKAGES`` therefore lists common ones.
"""

from __future__ import annotations

import re
import sys

BUILT_IN, STANDARD, GENERATED = "built-in", "standard library", "generated code"
THIRD_PARTY_PACKAGES = frozenset((
    "PIL", "_distutils_hack", "accelerate", "apex", "cloudpickle", "cupy", "cv2", "datasets", "deepspeed",
    "diffusers", "einops", "fastai", "filelock", "flash_attn", "fsspec", "functorch", "huggingface_hub", "hydra",
    "ignite", "jinja2", "lightning", "lightning_fabric", "matplotlib", "megatron", "mlflow", "mpmath", "networkx",
    "numpy", "omegaconf", "onnx", "onnxruntime", "packaging", "pandas", "peft", "pkg_resources", "psutil", "pyarrow",
    "pydantic", "pytorch_lightning", "ray", "requests", "safetensors", "scipy", "setuptools", "sglang", "sklearn",
    "sympy", "tensorboard", "timm", "tokenizers", "torch", "torch_xla", "torchao", "torchaudio", "torchdata",
    "torchgen", "torchrec", "torchtext", "torchvision", "tqdm", "transformer_engine", "transformers", "triton", "trl",
    "typing_extensions", "urllib3", "vllm", "wandb", "xformers", "yaml",
))  # fmt: skip
"""Used for paths without a ``site-packages`` folder."""
# As written by PyTorch, and by VizTracer: ``function (path:line)``.
_FRAME_FORMAT = re.compile(r"(?P<path>.+?)\(\d+\): |[^(]+ \((?P<file>.+):\d+\)$")
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/(?P<rest>.+)")
_INTERPRETER = re.compile(r"(?:.*/)?(?:lib/python\d[.\d]*|Python\d+/Lib)/")
# The standard library on Windows, next to other folders of that name.
_WINDOWS_LIBRARY = re.compile(r"[A-Za-z]:/(?:.*/)?Lib/(?P<module>\w+)(?:/|\.py)")
# PyTorch outside site-packages: built from source, or in an installer's cache.
_TORCH_CHECKOUT = re.compile(
    r"/(?:.*/)?(?P<rest>torch/(?:nn|optim|autograd|cuda|distributed|fx|jit|utils/(?:data|checkpoint)|_[a-z]\w*)(?:/|\.py).*)"
)
_WHOLE = re.compile(r"/|[A-Za-z]:/")
_SOURCES = re.compile(r"/(?:python|src|lib)/(?P<top>[^/]+)/")
# An address in the name of a built-in method: ``<built-in method append of list object at 0x7f...>``.
ADDRESS = r" at 0x[0-9a-fA-F]+"


def package_of(name: str) -> tuple[str, bool]:
    """Returns the package of a Python call, and whether the call is framework, library or interpreter code."""
    if name.startswith("<"):
        return _inside(name)
    found = _FRAME_FORMAT.match(name)
    if found is None:
        return "", False
    path = (found["path"] or found["file"]).replace("\\", "/")
    installed = _INSTALLED.match(path) or _TORCH_CHECKOUT.match(path)
    if installed is None:
        of_windows = _WINDOWS_LIBRARY.match(path)
        if _INTERPRETER.match(path) or (of_windows and of_windows["module"] in sys.stdlib_module_names):
            return STANDARD, True
    top = _top(installed["rest"] if installed else path)
    if installed is not None:
        return top, True
    # Absolute paths are outside of all import paths: a checkout, or a script elsewhere.
    whole = _WHOLE.match(path) is not None
    return (
        (STANDARD, True)
        if top in sys.stdlib_module_names and not whole
        else (top, top in THIRD_PARTY_PACKAGES and not whole)
    )


def _inside(name: str) -> tuple[str, bool]:
    """Returns the package of code without a file, such as the interpreter and generated code."""
    if name.startswith("<frozen "):
        return STANDARD, True
    if name.startswith(("<built-in ", "<method ", "<slot wrapper ")):
        return BUILT_IN, True
    return GENERATED, False


def _top(path: str) -> str:
    """Returns the first folder of a path. For absolute paths, returns the folder that is most likely a package."""
    if _WHOLE.match(path):
        found = _SOURCES.search(path)
        parts = path.split("/")
        return found["top"] if found else parts[-2] or parts[-1]
    return path.split("/")[0].removesuffix(".py")
