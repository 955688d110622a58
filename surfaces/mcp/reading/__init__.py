"""What an agent can read: resources, prompts, completions and subscriptions."""
