"""Proposals: generators that yield graphs for Vela to compile, one file each (`eqsat/search/loop.py`)."""
