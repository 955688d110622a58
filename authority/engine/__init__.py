"""The engine: stamps, decides in Python or C, seals and commits."""

__all__ = ["engine", "ffi"]
