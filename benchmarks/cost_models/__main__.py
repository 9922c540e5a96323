"""The accuracy of cost models against Vela's total.

    python -m benchmarks.cost_models --models emg,my.py:make --targets ethos-u55-128 --samples 200 --json OUT
    python -m benchmarks.cost_models --unseen --json OUT

Beside OUT, a list of records: OUT.points.jsonl with every truth and prediction (a cell that is there is not run again),
and a table in OUT.md. Errors and regret are fractions. `--tosa DIR` takes graphs saved as
`<model>.<delegate>.<target>.explicit.tosa` instead of lowering the models. `--cost-model` adds one: `file.py:Class`,
`module:Class` or an entry point.
"""

from __future__ import annotations

import json
import sys
import time
from operator import itemgetter
from pathlib import Path

import cost_models
from benchmarks.about import TARGETS, arguments, listed, write_about, write_text
from benchmarks.cost_models import table
from benchmarks.cost_models.run import Cell, label, run_cell
from benchmarks.cost_models.unseen import UNSEEN
from benchmarks.models import ZOO
from benchmarks.saved import explicit_graphs
from eqsat.bench.log import Log
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.target import Target

MODELS = tuple(cost_models.BUILT_IN)


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.prog = "python -m benchmarks.cost_models"
    parser.add_argument("--models", help="comma-separated: names of the zoo, or file.py:callable (default: the zoo)")
    parser.add_argument("--unseen", action="store_true", help="the networks that no model was tuned on")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--samples", type=int, default=200, help="equivalent graphs per model and target")
    parser.add_argument("--cost-model", action="append", default=[], help="one more model (repeatable)")
    parser.add_argument("--tosa", type=Path, help="directory of saved graphs")
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args(argv)
    names = (*MODELS, *args.cost_model)
    try:
        for name in names:
            cost_models.find(name)
    except InputError as e:
        parser.error(str(e))
    models = listed(args.models) if args.models else [] if args.unseen else list(ZOO)
    models += [f"benchmarks.cost_models.unseen:{n}" for n in UNSEEN] if args.unseen else []
    args.json.parent.mkdir(parents=True, exist_ok=True)
    points = Log(args.json.with_suffix(".points.jsonl"), itemgetter("model", "target"))
    cells = {k: Cell(**r) for k, r in points.records.items()}
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:6.0f} s] {text}", file=sys.stderr, flush=True)

    def have(model: str, target: str) -> bool:
        return any(
            c.target == target
            and c.model.partition("#")[0] == label(model)
            and c.wanted >= args.samples
            and {label(n) for n in names} <= c.points.keys()
            for c in cells.values()
        )

    for model in models:
        for target in listed(args.targets):
            if have(model, target):
                continue
            spec = Target.of(target)
            for delegate, explicit in explicit_graphs(model, target, args.tosa):
                name = label(model) + ("" if delegate == "0" else f"#{delegate}")
                where = f"{name} {target}"
                with Pool() as pool:
                    cell = run_cell(
                        name,
                        explicit,
                        spec,
                        args.samples,
                        names,
                        pool,
                        lambda text, where=where: say(f"{where}: {text}"),
                    )
                if cell is None:
                    say(f"{where}: Vela takes no graph")
                    continue
                cells[cell.model, cell.target] = cell
                points.add(cell.as_dict())
                say(f"{where}: " + ", ".join(f"{r['cost_model']} {r['mape']:.2%}" for r in cell.records()))
    args.json.write_text(json.dumps([r for c in cells.values() for r in c.records()], indent=1))
    write_about(args.json.parent, ("eqsat", "ethos-u-vela", "egglog"), f"{args.json.stem}.run.json")
    print(write_text(args.json.with_suffix(".md"), table.markdown(list(cells.values()))))


if __name__ == "__main__":
    main()
