"""Operating-system processes: what starts a command, what it prints, and what ends all of it."""

__all__ = ["port"]
