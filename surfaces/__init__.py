"""The doors: they parse, call and print. No rule lives here."""
