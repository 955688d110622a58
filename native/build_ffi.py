"""How the C in this folder becomes `understudy.authority._lease`.

The header is the only declaration: cffi is handed what stands between its two marks. Without a
compiler the build says so and goes on, and the package works on its reference in Python.
"""

import os
from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent
# Relative to the root, where setuptools runs; absolute paths would end up in the sdist's list.
SOURCES = sorted(f"native/{path.name}" for path in HERE.glob("*.c"))
HEADERS = sorted(f"native/{path.name}" for path in HERE.glob("*.h"))


def declarations() -> str:
    """What Python may call; cffi does not know attributes, so the word for one is taken out."""
    header = (HERE / "lease.h").read_text("utf-8")
    return (
        header.split("/* cffi: begin */")[1].split("/* cffi: end */")[0].replace("US_CHECKED ", "")
    )


# Nothing but Python's entry is visible, so that calls between our files are plain calls.
_FLAGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra"]

ffibuilder = FFI()
ffibuilder.cdef(declarations())
ffibuilder.set_source(
    "understudy.authority._lease",
    '#include "lease.h"',
    sources=SOURCES,
    include_dirs=["native"],
    depends=HEADERS,
    extra_compile_args=[] if os.name == "nt" else _FLAGS,
    optional=True,  # no compiler, no Python.h: a notice, not an error
)
