"""Reaching an authority: in a state directory, or through a sidecar, its clients and the relay."""

__all__ = ["client", "fence_check", "import_oplog", "lost_rows", "sidecar", "sockets"]
