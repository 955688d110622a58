"""OTP for Python: supervisors, servers, monitors, names and ports. Usable without the rest."""
