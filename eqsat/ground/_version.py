"""The version of eqsat, which every room may read."""

__version__ = "0.2.0.dev0"
