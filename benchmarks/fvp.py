"""What public measurements on Arm's own models of the hardware say of a price per command, besides Vela's cycles.

    python -m benchmarks.fvp --out benchmarks/results/fvp/summary.md

`cycles.csv` has 38 cells: a model of Arm's ML Zoo (and yolo-fastest of Emza's) on a configuration of U55 or U65, with the operators and total of Vela 5.0 and
the NPU's cycles of one inference on the Corstone FVP, which counts in steps of about 1,000. Source: github.com/Kwon-GiHwan/mps4_prototyping_board,
docs/paper/analysis/scaling.csv (commit 5e719e16) joined with docs/paper/evidence/vela-matrix-20260824/vela_matrix.csv (commit de272c81); figures only.

The fit is `fvp = share * vela + price * operators`, least squares of the relative errors, with a share for each family and one price. Operators stand for
commands, which are at least as many, so that the price is one for each command at most. It counts only if it is positive whichever model is left out.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eqsat.files import write_atomically

CELLS = Path(__file__).parent / "results" / "fvp" / "cycles.csv"


@dataclass(frozen=True, slots=True)
class Cell:
    """Cycles of a model on a configuration, by Vela and by the FVP."""

    family: str
    macs: int
    model: str
    operators: int
    vela: int
    fvp: int


@dataclass(frozen=True, slots=True)
class Fit:
    """shares: by family; price: cycles per operator; errors: relative, of each cell."""

    shares: dict[str, float]
    price: float
    errors: tuple[float, ...]

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))


def cells(path: Path = CELLS) -> list[Cell]:
    with path.open() as f:
        return [
            Cell(
                r["npu"],
                int(r["macs"]),
                r["model"],
                int(r["npu_operators"]),
                int(r["vela_cycles_total"]),
                int(r["fvp_cycles"]),
            )
            for r in csv.DictReader(f)
        ]


def fit(given: Sequence[Cell]) -> Fit:
    families = sorted({c.family for c in given})
    rows = [[c.vela * (c.family == f) / c.fvp for f in families] + [c.operators / c.fvp] for c in given]
    found, *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    errors = np.array(rows) @ found - 1
    return Fit(dict(zip(families, found.tolist())), float(found[-1]), tuple(errors.tolist()))


def without_each(given: Sequence[Cell]) -> dict[str, Fit]:
    """{model: the fit without it}."""
    return {m: fit([c for c in given if c.model != m]) for m in sorted({c.model for c in given})}


def per_command(given: Sequence[Cell]) -> float:
    """The price that the cells bear out: 0 where its sign hangs on one model."""
    found = fit(given).price
    return found if min([found, *(f.price for f in without_each(given).values())]) > 0 else 0.0


def summary(given: Sequence[Cell]) -> str:
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
        ratio = f"{c.vela / c.fvp:.3f}"
        lines.append(f"| {c.family}-{c.macs} | {c.model} | {c.vela:,} | {c.fvp:,} | {ratio} | {e:+.1%} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the tables there, too")
    given = parser.parse_args(arguments)
    text = summary(cells())
    print(text, end="")
    if given.out:
        write_atomically(given.out, text.encode())


if __name__ == "__main__":
    main()
