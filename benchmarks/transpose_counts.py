"""TRANSPOSEs and cycles on ExecuTorch's own cases of `backends/arm/test/misc/test_transpose_counts.py`, which come with
its wheel.

    python -m benchmarks.transpose_counts --targets ethos-u55-128,ethos-u85-256 --out OUT

All cases that the wheel tests in integers are quantized, lowered, and optimized; the graph with explicit layout,
stock's and eqsat's are counted, over all delegates of a case. `records.jsonl` has a line per case and target,
`run.json` the commit and the versions, and `table.md` is made from both; a run that was interrupted goes on where it
stopped. Exit code 1 if eqsat's graph is costlier than stock's anywhere, or has more TRANSPOSEs for the same cycles.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.about import arguments, as_text, listed, markdown_table, write_about, write_text
from eqsat.bench.log import Log
from eqsat.bench.lowering import quiet
from eqsat.options.options import Options
from eqsat.report.data import geometric_mean
from eqsat.search.result import Result
from eqsat.tosa import loads

TARGETS = ("ethos-u55-128", "ethos-u85-256")
#: The graphs that are compared: with explicit layout, of stock and of eqsat.
KINDS = ("explicit", "stock", "eqsat")
_PACKAGES = ("eqsat", "executorch", "ethos-u-vela", "egglog", "torch")
_FIGURES = ("TRANSPOSEs: explicit", "stock", "eqsat", "cycles: explicit", "stock", "eqsat", "eqsat to stock")


def cases() -> dict[str, Any]:
    """Returns {name: case} of the wheel.

    A case has `module`, `inputs` and the number of TRANSPOSEs that ExecuTorch's test expects.
    """
    from executorch.backends.arm.test.misc import test_transpose_counts

    return {**test_transpose_counts.cases, **test_transpose_counts.cases_int}


def measure(name: str, target: str, options: Options) -> dict[str, Any]:
    """Returns the record of one case; a failure is a record with its error."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.lowering import lower_with_session
    from eqsat.executorch.quantize import quantize

    record: dict[str, Any] = {"name": name, "target": target}
    case, spec = cases()[name], EthosUCompileSpec(target)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            program = quantize(case.module, case.inputs, spec, [case.inputs])
            _, session = lower_with_session(program, spec, options=options)
    except Exception as e:  # noqa: BLE001 - whatever ExecuTorch raises on a case of its own is that case's outcome
        return {**record, "error": f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"}
    if session.stepped_back or not session.results:
        warned = [str(w.message) for w in caught if "eqsat" in str(w.message)]
        return {**record, "error": (warned or ["no delegate"])[-1][:300]}
    return {**record, "expected_by_executorch": case.expected_transposes, **_counted(session.results)}


def _counted(results: Sequence[Result]) -> dict[str, Any]:
    """Returns the TRANSPOSEs and cycles of all delegates.

    A count is None if a delegate has no such graph or Vela refuses it.
    """
    graphs = {
        "explicit": [r.explicit for r in results],
        "stock": [r.run.graphs.get("stock") if r.run else None for r in results],
        "eqsat": [r.tosa for r in results],
    }
    cycles = {
        "explicit": [r.explicit_cycles for r in results],
        "stock": [r.stock_cycles for r in results],
        "eqsat": [r.cycles for r in results],
    }
    return {
        "delegates": len(results),
        "chosen": [r.chosen for r in results],
        "verified": all(r.verified for r in results),
        "transposes": {k: _sum([b and loads(b).op_counts().get("transpose", 0) for b in graphs[k]]) for k in KINDS},
        "cycles": {k: _sum(cycles[k]) for k in KINDS},
        "warnings": [w for r in results for w in r.warnings],
    }


def _sum(values: Sequence[Any]) -> int | None:
    return None if None in values else sum(values)


def faults(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the cells in which eqsat is costlier than stock, or has more TRANSPOSEs for the same cycles."""
    out = []
    for r in records:
        stock, ours = ((r.get("cycles", {}).get(k), r.get("transposes", {}).get(k)) for k in ("stock", "eqsat"))
        if stock[0] is not None and ours[0] > stock[0]:
            out.append(f"{r['name']} on {r['target']}: {ours[0]:,} cycles, stock {stock[0]:,}")
        elif stock[0] is not None and ours[0] == stock[0] and stock[1] is not None and ours[1] > stock[1]:
            out.append(f"{r['name']} on {r['target']}: {ours[1]} TRANSPOSEs for the same cycles, stock {stock[1]}")
    return out


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns the results as Markdown.

    There is a row per case, and per target one with the sums of TRANSPOSEs and the geometric mean of cycles to stock.
    """
    lines = [
        "# TRANSPOSEs of ExecuTorch's own cases",
        "",
        "The cases of `backends/arm/test/misc/test_transpose_counts.py` in ExecuTorch's wheel. "
        "Made by `python -m benchmarks.transpose_counts`;",
        "one line per case and target is in `records.jsonl`.",
        "",
        f"{as_text(about)}.",
        "",
    ]
    rows = [*map(_row, records)]
    for target in dict.fromkeys(r["target"] for r in records):
        rows += _sums(target, [r for r in records if r["target"] == target and "error" not in r])
    lines += markdown_table(("case", "target", *_FIGURES), rows, names=2)
    found = faults(records) or ["Nowhere costlier than stock, nowhere more TRANSPOSEs for the same cycles."]
    return "\n".join([*lines, *(f"* {f}" for f in found)]) + "\n"


def _row(r: Mapping[str, Any]) -> list[str]:
    if "error" in r:
        return [r["name"], r["target"], r["error"].replace("|", "/"), *[""] * 6]
    counts, cycles = ([r[what][k] for k in KINDS] for what in ("transposes", "cycles"))
    ratio = f"{cycles[2] / cycles[1]:.3f}" if cycles[1] else "-"
    return [r["name"], r["target"], *map(_shown, (*counts, *cycles)), ratio]


def _sums(target: str, records: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Returns the row of a target over the cases that have a stock graph, since others cannot be compared."""
    known = [r for r in records if r["cycles"]["stock"] and r["transposes"]["stock"] is not None]
    if not known:
        return []
    sums = (_shown(_sum([r["transposes"][k] for r in known])) for k in KINDS)
    mean = geometric_mean([r["cycles"]["eqsat"] / r["cycles"]["stock"] for r in known])
    return [[f"**all {len(known)} with a stock graph**", target, *sums, "", "", "", f"**{mean:.3f}**"]]


def _shown(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


@quiet()
def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__, "transpose_counts")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--cases", default="", help="names, separated by commas (default: all)")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per extraction")
    parser.add_argument("--cache", type=Path, help="file of measured prices (default: the user's)")
    args = parser.parse_args(argv)
    about = write_about(args.out, _PACKAGES)
    log = Log(args.out / "records.jsonl", itemgetter("name", "target"), lambda r: "error" not in r)
    wanted = [(n, t) for t in listed(args.targets) for n in (listed(args.cases) or cases())]
    for name, target in wanted:
        if (name, target) not in log.records:
            log.add(measure(name, target, Options(time_limit=args.time_limit, cache=args.cache)))
        record = log.records[name, target]
        print(name, target, record.get("error") or (record["transposes"], record["cycles"]), flush=True)
    records = [log.records[cell] for cell in wanted]
    write_text(args.out / "table.md", table(records, about))
    return 1 if faults(records) else 0


if __name__ == "__main__":
    sys.exit(main())
