"""Conformance: vectors, what runs them, and the faults that they inflict."""

from .scene import UnknownBoundary, require_boundary
from .vectors import Result, Vector, load_vectors, rewrite, run_vector

__all__ = [
    "Result",
    "UnknownBoundary",
    "Vector",
    "load_vectors",
    "require_boundary",
    "rewrite",
    "run_vector",
]
