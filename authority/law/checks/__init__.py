"""The rules of checks: instructions, required checks, joins and coherence."""
