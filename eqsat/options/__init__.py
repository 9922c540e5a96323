"""Options of a user and the choice of the answer: budgets, limits, ranking, the user's plug-ins."""
