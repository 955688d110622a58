"""What the authority remembers: issues, leases, jobs, specs and the tables of their life."""
