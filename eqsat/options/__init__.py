"""What a user may set, and how the answer is chosen: options, budgets, limits, ranking."""
