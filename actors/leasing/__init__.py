"""The one client of leases: holding, renewing, outstanding requests, polling."""

__all__ = ["work_kind"]
