"""The stage: OTP on Thespian, and the coordinator's supervision tree on it.

What other rooms may load is in `__all__`, here and in the rooms within.
"""

__all__ = ["tree"]
