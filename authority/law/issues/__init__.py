"""The rules of issues: how they come, wait for each other, change hands and end."""
