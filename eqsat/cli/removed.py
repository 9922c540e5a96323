"""Removed commands and options, and their replacements."""

from __future__ import annotations

#: {command, or option with its dashes: its replacement}.
REMOVED = {
    "--referee": "the calibrated price of the commands decides",
    "--numerics": "every result is proved equal to the input for every input, or is stock's",
    "--tolerance": "every result is proved equal to the input for every input, or is stock's",
    "--command-cycles": "`python -m benchmarks.measured FILE.csv FOLDER --fit` in a clone of the repository fits it",
    "--shard": "`--models` and `--out` divide a benchmark between machines",
    "--scheduler": "`--models` and `--out` divide a benchmark between machines",
    "--into": "`eqsat report` reads one run",
    "--cold-cache": "let `EQSAT_CACHE` name a directory that is not there yet",
    "--csv": "`--json` has the same figures",
    "--litert": "`python -m benchmarks.litert` in a clone of the repository measures LiteRT",
    "--setup-litert": "use `python -m benchmarks.litert setup DIR` in a clone of the repository",
    "--dot": "`--svg` draws it, `--json` has its boxes and edges",
    "discover": "use `python -m benchmarks.discovery graph` in a clone of the repository",
    "fit": "use `python -m benchmarks.measured FILE.csv FOLDER --fit` in a clone of the repository",
}


def find_removed(arguments: list[str]) -> str | None:
    """Returns the message for the first removed command or option of a command line, or None if it has none."""
    options = arguments[1 : arguments.index("--") if "--" in arguments else None]
    given = [*arguments[:1], *(a.partition("=")[0] for a in options if a.startswith("--"))]
    return next((f"{name}: removed in 0.2: {REMOVED[name]}" for name in given if name in REMOVED), None)
