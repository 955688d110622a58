"""The published documents, their pins, and the checks that hold them together."""
