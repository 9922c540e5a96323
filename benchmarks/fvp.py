"""What public measurements on Arm's own models of the hardware say of a price per command, besides Vela's cycles.

    python -m benchmarks.fvp --out benchmarks/results/fvp/summary.md

`cycles.csv` has 38 cells: a model of Arm's ML Zoo (and yolo-fastest of Emza's) on a configuration of U55 or U65, with
the operators and total of Vela 5.0 and the NPU's cycles of one inference on the Corstone FVP, which counts in steps of
about 1,000. Source: github.com/Kwon-GiHwan/mps4_prototyping_board, docs/paper/analysis/scaling.csv (commit 5e719e16)
joined with docs/paper/evidence/vela-matrix-20260824/vela_matrix.csv (commit de272c81); figures only.

Operators stand for commands, which are at least as many, so that the price fitted (`cost_models/measured.py`) is one
for each command at most. Your own measurements are fitted by `eqsat fit`.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cost_models.measured import Measurement, fit, per_command, without_each
from eqsat.ground.files import write_atomically

#: The public measurements.
CELLS = Path(__file__).parent / "results" / "fvp" / "cycles.csv"


@dataclass(frozen=True, slots=True)
class Cell(Measurement):
    """A measurement of a model on a configuration.

    Its commands are the operators, its price is Vela's total, and it is measured in cycles of the FVP.
    macs: MACs per cycle of the configuration.
    """

    macs: int


def cells(path: Path = CELLS) -> list[Cell]:
    """Returns the cells of a file like `cycles.csv`."""
    with path.open() as f:
        return [
            Cell(
                r["model"],
                r["npu"],
                int(r["npu_operators"]),
                int(r["vela_cycles_total"]),
                int(r["fvp_cycles"]),
                int(r["macs"]),
            )
            for r in csv.DictReader(f)
        ]


def summary(given: Sequence[Cell]) -> str:
    """Returns the fits with all models and without each, and the errors of all cells, as Markdown."""
    whole, without = fit(given), without_each(given)
    lines = [
        "# A price per command, fitted to public measurements",
        "",
        f"{len(given)} cells; what they bear out: {per_command(given):.0f} cycles per command, besides those of Vela.",
        "",
        "| fit | share U55 | share U65 | cycles per operator | r.m.s. error |",
        "|---|---|---|---|---|",
    ]
    for name, f in {"all": whole, **{f"without {m}": f for m, f in without.items()}}.items():
        shares = " | ".join(f"{f.shares[k]:.3f}" for k in ("ethos-u55", "ethos-u65"))
        lines.append(f"| {name} | {shares} | {f.price:,.0f} | {f.rms:.1%} |")
    lines += [
        "",
        "| configuration | model | Vela | FVP | Vela over FVP | error of the fit |",
        "|---|---|---|---|---|---|",
    ]
    for c, e in zip(given, whole.errors, strict=True):
        ratio = f"{c.priced / c.measured:.3f}"
        lines.append(f"| {c.family}-{c.macs} | {c.name} | {c.priced:,} | {c.measured:,} | {ratio} | {e:+.1%} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the tables there, too")
    given = parser.parse_args(arguments)
    text = summary(cells())
    print(text, end="")
    if given.out:
        write_atomically(given.out, text.encode())


if __name__ == "__main__":
    main()
