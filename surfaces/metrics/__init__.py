"""Metrics in Prometheus' text format: which there are, where they come from, who serves them.

`table.py` describes them once, `reading.py` collects, `exposition.py` writes, `server.py` serves.
"""
