"""The tools that an agent can call: their texts, their schemas, and what each call does."""
