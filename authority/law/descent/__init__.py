"""Covers, sections, overlaps, and the glue of a branch. What git said comes in requests."""
