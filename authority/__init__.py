"""The law: the only room where a lease changes hands."""
