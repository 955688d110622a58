"""The stage: OTP on Thespian, and the coordinator's supervision tree on it.

Doors load `attempts`, `checks` and `runner` from here when they need them.
"""
