"""Processes of the operating system: what is started, and how it is known to live."""
