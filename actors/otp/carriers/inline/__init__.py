"""Cells in one thread, with a clock that moves when it is told to: the carrier for tests."""

from .system import Endless, Inline

__all__ = ["Endless", "Inline"]
