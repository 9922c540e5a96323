"""Proposals: generators that yield graphs for Vela to compile (`eqsat/search/loop.py`)."""
