"""Checks of work: which ones a change requires, who may ask for them, and what joins."""
