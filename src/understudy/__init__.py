"""Understudy: exactly one worker holds each piece of work, and every decision can be replayed."""

__version__ = "0.1.0"

__all__ = ["__version__"]
