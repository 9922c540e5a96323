"""`eqsat.optimize` before lowering over the zoo: stock, `optimize` alone, eqsat's lowering alone, both (Vela's total
cycles).

    python -m benchmarks.optimize_program --models emg,unet --targets ethos-u55-128,ethos-u85-256 --out OUT

Every cell is a process of its own: the model is quantized, `eqsat.optimize(check="lower")` lowers it and its candidate
by stock ExecuTorch and by eqsat, and keeps the better. `records.jsonl` has a line per cell, the candidate's cycles
included where it was not taken; a run that was interrupted goes on where it stopped; `table.md` is made from it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from operator import itemgetter

from benchmarks.about import ROOT, arguments, listed, markdown_table, write_about, write_text
from benchmarks.models import ZOO, load
from eqsat.bench.log import Log
from eqsat.report.data import geometric_mean

TARGETS = ("ethos-u55-128", "ethos-u85-256")
#: The ways that are compared, as keys of the cycles of a record.
COLUMNS = ("stock", "optimize", "eqsat", "both")


def measure(model: str, target: str) -> dict:
    """Returns the record of one cell, measured in this process."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    import eqsat
    from eqsat.before_lowering.optimize import lowered
    from eqsat.executorch.quantize import quantize

    spec = EthosUCompileSpec(target)
    program = quantize(*load(model), spec)
    _new, report = eqsat.optimize(program, target=spec)
    old, candidate = report.lowered or (lowered(program, spec, eqsat.Options()),) * 2
    taken = candidate if report.changed else old
    return {
        "name": model,
        "target": target,
        "changed": report.changed,
        "reason": report.reason,
        "outside": [old.outside, taken.outside],
        "cycles": {"stock": old.stock, "optimize": taken.stock, "eqsat": old.eqsat, "both": taken.eqsat},
        "candidate": asdict(candidate) if report.lowered else None,
        "modelled": report.modelled,
        "ops": report.ops,
        "exact": report.exact,
        "trials": report.trials,
        "largest_difference": report.largest_difference,
        "seconds": report.seconds,
        "warnings": report.warnings,
    }


def run_cell(model: str, target: str, timeout: float) -> dict:
    """Returns the record of one cell, measured in a process of its own.

    timeout: seconds.
    A failure is a record with its error.
    """
    command = [sys.executable, "-m", "benchmarks.optimize_program", "--cell", model, target]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"name": model, "target": target, "error": f"took over {timeout:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"name": model, "target": target, "error": done.stderr.strip()[-500:]}
    return json.loads(lines[-1])


def table(records: list[dict]) -> str:
    """Returns a row per cell, and the geometric means of the ratios to stock per target, as Markdown."""
    head = (
        "model",
        "target",
        "outcome",
        *("stock", "optimize alone", "eqsat's lowering alone", "both"),
        "both to eqsat's",
    )
    lines: list[list[object]] = []
    ratios: dict[str, list[tuple[float, ...]]] = {}
    for r in sorted(records, key=lambda r: (ZOO.index(r["name"]), r["target"])):
        if "error" in r or None in r["cycles"].values():
            error = " ".join(r.get("error", "a delegate failed").split())[-80:]
            lines.append([r["name"], r["target"], error, *"-----"])
            continue
        cycles = [r["cycles"][c] for c in COLUMNS]
        ratios.setdefault(r["target"], []).append(tuple(c / cycles[0] for c in cycles))
        outcome = "changed" if r["changed"] else r["reason"]
        figures = (*(f"{c:,}" for c in cycles), f"{cycles[3] / cycles[2]:.3f}")
        lines.append([r["name"], r["target"], outcome, *figures])
    for target, rows in ratios.items():
        means = [geometric_mean(column) for column in zip(*rows, strict=True)]
        figures = (f"**{m:.3f}**" for m in (*means, means[3] / means[2]))
        lines.append([f"**geometric mean of {len(rows)}, to stock**", target, "", *figures])
    return "\n".join(markdown_table(head, lines, names=3))


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__, "optimize_program")
    parser.add_argument("--models", default=",".join(ZOO))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--timeout", type=float, default=3600, help="seconds per cell")
    parser.add_argument(
        "--cell", nargs=2, metavar=("MODEL", "TARGET"), help="measure one cell here and print its record"
    )
    args = parser.parse_args(argv)
    if args.cell:
        print(json.dumps(measure(*args.cell)))
        return
    write_about(args.out, ("eqsat", "executorch", "ethos-u-vela", "egglog"))
    log = Log(args.out / "records.jsonl", itemgetter("name", "target"), lambda r: "error" not in r)
    for model in listed(args.models):
        for target in listed(args.targets):
            if (model, target) in log.records:
                continue
            record = run_cell(model, target, args.timeout)
            log.add(record)
            print(model, target, record.get("error") or record["cycles"], flush=True)
    print(write_text(args.out / "table.md", table(list(log.records.values()))))


if __name__ == "__main__":
    main()
