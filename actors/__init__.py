"""The stage: OTP on Thespian, and the coordinator's supervision tree on it."""
