"""The rules of jobs and specs: who may take what, and the operations that several nodes share."""

__all__ = ["job", "oplog"]
