"""Long calls that answer at once by naming a task."""
