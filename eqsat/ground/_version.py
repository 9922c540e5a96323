"""The version of eqsat, which every package may import."""

__version__ = "0.2.0"
