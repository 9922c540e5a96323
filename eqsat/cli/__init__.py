"""The command line, a file per command. Exit codes: 0 done; 2 bad input; 3 ExecuTorch, Vela or the disk failed; 4 written, but a
delegate is stock's because eqsat stepped back; 130 interrupted."""
from eqsat.cli import compile, optimize, rules
from eqsat.cli.common import app

__all__ = ["app", "compile", "optimize", "rules"]
