"""What pyproject.toml cannot say yet: a cffi module, and the limited API in the wheel's tag."""

from setuptools import setup

setup(
    cffi_modules=["native/build_ffi.py:ffibuilder"],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
