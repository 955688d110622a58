"""Conformance: vectors, what runs them, and the faults that they inflict."""

from .copying import NoVector, vector_of
from .scene import UnknownBoundary, require_boundary
from .vectors import Result, Vector, load_vectors, rewrite, run_vector

__all__ = [
    "NoVector",
    "Result",
    "UnknownBoundary",
    "Vector",
    "load_vectors",
    "require_boundary",
    "rewrite",
    "run_vector",
    "vector_of",
]
