"""The rules: pure functions of what is, what is asked and when. Nothing here does I/O."""
