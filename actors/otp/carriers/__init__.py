"""What carries cells: `inline` in one thread, for tests; `process` each in a process of its own."""
