"""Conformance: vectors, what runs them, and the faults that they inflict."""
