"""What a user may set, and what decides between graphs: options, budgets, limits of memory, the referee."""
