"""The user's options, and the choice of the result: budgets, limits, ranking and the user's plug-ins."""
