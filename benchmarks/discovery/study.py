"""What discovery finds: our own families of rules, blind, and what none of them has.

    python -m benchmarks.discovery study --tosa DIR --targets ethos-u85-256,ethos-u55-128

Blind: without one family's rules, on neighbourhoods in which these fire and the answer is cheaper with them, whether
something is found that is cheaper than what the other rules reach ("found"), and as cheap as with the family
("as cheap"). Neighbourhoods are those of DIR's graphs, and of `planted`: small graphs at sizes of real layers for
families that those graphs have no use for. News: with all rules, on neighbourhoods of the graphs, the largest of each
first; with `--answers` of other graphs, such as those that eqsat has optimized.

`records.jsonl` has a line per family and one per neighbourhood of the news; an interrupted run goes on where it
stopped. `table.md` is made from it; `run.json` has the commit, the versions and the options. Seconds are of the
processor's clock of this process, in which no compilation is; cycles are Vela's corrected totals.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.about import as_text, write_about
from benchmarks.discovery.find import Discoverer, work
from benchmarks.discovery.neighbourhoods import Neighbourhood, neighbourhoods
from eqsat.bench.log import Log
from eqsat.egraph.encoding import saturate
from eqsat.egraph.rule import Rule
from eqsat.ground.files import write_atomically
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.spellings import for_target
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads

ROOT = Path(__file__).parents[2]
#: The keys that identify a record.
CELL = ("part", "target", "subject")
#: Most neighbourhoods that are tried blind for a family, and most in which it is looked for.
_MOST_TRIED, _MOST_LOOKED_AT = 3, 60
_PACKAGES = ("ethos-u-vela", "egglog")


def families() -> list[str]:
    """Returns the names of the families of rules."""
    return list(dict.fromkeys(r.family for r in RULES))


def without(family: str) -> tuple[Rule, ...]:
    """Returns all rules but the rewrites of a family."""
    return tuple(r for r in RULES if r.analysis or r.family != family)


# ---- graphs -------------------------------------------------------------------------------------


def _rescaled(g: TensorGraph, x: int, channels: int, seed: int = 0) -> int:
    """Adds a RESCALE to INT8 with random factors per channel."""
    scales = np.random.default_rng(seed).integers(1 << 30, (1 << 31) - 1, channels).tolist()
    return g.add_with("rescale", [x], makers.rescale("INT8", scales, [38] * channels, out_zp=-5))


def _convolved(g: TensorGraph, x: int, shape: tuple[int, ...], **window: Any) -> int:
    """Adds a convolution with random weights of this shape, and a RESCALE."""
    rng = np.random.default_rng(sum(shape))
    w, b = g.add_const(rng.integers(-127, 128, shape), "INT8"), g.add_const(rng.integers(-500, 500, shape[0]), "INT32")
    return _rescaled(g, g.add_with("conv2d", [x, w, b], makers.conv("INT8", in_zp=-3, **window)), shape[0])


def _graph(shape: Sequence[int], build: Any) -> TensorGraph:
    g = TensorGraph(output_names=["y"])
    g.outputs.append(build(g, g.add_input("x0", shape, "INT8")))
    return g


def _moves(g: TensorGraph, x: int) -> int:
    """Adds a CLAMP between two TRANSPOSEs that cancel."""
    y = g.add_with("clamp", [g.add("transpose", [x], perms=(0, 2, 3, 1))], makers.clamp("INT8", -100, 100))
    return g.add("transpose", [y], perms=(0, 3, 1, 2))


def _concats(g: TensorGraph, x: int) -> int:
    """Adds a CLAMP of a CONCAT of two slices."""
    parts = [g.add("slice", [x], start=(0, 0, 0, c), size=(1, 28, 28, 16)) for c in (0, 16)]
    return g.add_with("clamp", [g.add("concat", parts, axis=3)], makers.clamp("INT8", -100, 100))


def _grouped(g: TensorGraph, x: int) -> int:
    """Adds two convolutions of one tensor, concatenated."""
    return g.add("concat", [_convolved(g, x, (8 + k, 3, 3, 32), pad=(1, 1, 1, 1)) for k in (0, 8)], axis=3)


def _channels(g: TensorGraph, x: int) -> int:
    """Adds a LayerScale, a product with a constant per channel."""
    wide = g.add_with("rescale", [x], makers.rescale("INT32", 1 << 30, 30, in_zp=-3))
    scale = g.add_const(np.random.default_rng(1).integers(1, 128, (1, 1, 1, 32)), "INT32")
    product = g.add_with("mul", [wide, scale], makers.mul())
    return g.add_with("rescale", [product], makers.rescale("INT8", 1 << 30, 37, out_zp=4))


def _sparsity(g: TensorGraph, x: int) -> int:
    """Adds a grouped convolution that is written as a dense one.

    Three in four of its weights are zeros, in runs.
    """
    rng = np.random.default_rng(3)
    weights = rng.integers(-127, 128, (64, 3, 3, 64))
    for o in range(64):
        weights[o, ..., [c for c in range(64) if c // 16 != o // 16]] = 0
    w, b = g.add_const(weights, "INT8"), g.add_const(np.zeros(64, np.int64), "INT32")
    return _rescaled(g, g.add_with("conv2d", [x, w, b], makers.conv("INT8", pad=(1, 1, 1, 1))), 64)


def _matmul(g: TensorGraph, x: int) -> int:
    """Adds a MATMUL by a constant."""
    k = g.add_const(np.random.default_rng(2).integers(-127, 128, (1, 64, 64)), "INT8")
    return g.add_with("rescale", [g.add_with("matmul", [x, k], makers.matmul())], makers.rescale("INT8", 1 << 30, 40))


def _operators(g: TensorGraph, x: int) -> int:
    """Adds a CLAMP of a REDUCE_MAX."""
    y = g.add_with("reduce_max", [x], makers.extremum(3))
    return g.add_with("clamp", [y], makers.clamp("INT8", -100, 100))


def _positions(g: TensorGraph, x: int) -> int:
    """Adds a GATHER of rows whose columns are exchanged before and after."""
    y = g.add("transpose", [x], perms=(0, 2, 1))
    at = g.add_const(np.arange(0, 64, 2).reshape(1, 32), "INT32")
    return g.add("transpose", [g.add("gather", [g.add("transpose", [y], perms=(0, 2, 1)), at])], perms=(0, 2, 1))


def _quantized(g: TensorGraph, x: int) -> int:
    """Adds x * sigmoid(x)."""
    gate = g.add_with("table", [x], makers.table([max(-128, min(127, v // 2 + 40)) for v in range(-128, 128)]))
    a, b = (g.add_with("rescale", [v], makers.rescale("INT32", 1 << 30, 30)) for v in (x, gate))
    return g.add_with("rescale", [g.add_with("mul", [a, b], makers.mul())], makers.rescale("INT8", 1 << 30, 37))


def _weights(g: TensorGraph, x: int) -> int:
    """Adds a channel shuffle and a convolution."""
    split = g.add("reshape", [x], shape=(1, 14, 14, 4, 16))
    turned = g.add("transpose", [split], perms=(0, 1, 2, 4, 3))
    return _convolved(g, g.add("reshape", [turned], shape=(1, 14, 14, 64)), (64, 1, 1, 64))


def planted() -> dict[str, TensorGraph]:
    """Returns a graph for each family, at sizes of real layers."""
    return {
        "moves": _graph((1, 64, 14, 14), _moves),
        "across": _graph((1, 24, 28, 28), _moves),
        "slicing": _graph(
            (1, 28, 28, 16),
            lambda g, x: _convolved(
                g, g.add_with("pad", [x], makers.pad((0, 0, 1, 1, 1, 1, 0, 0), -3)), (16, 3, 3, 16)
            ),
        ),
        "concats": _graph((1, 28, 28, 32), _concats),
        "quantized": _graph((1, 28, 28, 32), _quantized),
        "channels": _graph((1, 28, 28, 32), _channels),
        "weights": _graph((1, 14, 14, 64), _weights),
        "matmul": _graph((1, 49, 64), _matmul),
        "convolution": _graph((1, 128, 1, 8), lambda g, x: _convolved(g, x, (8, 9, 1, 8), pad=(4, 4, 0, 0))),
        "grouped": _graph((1, 14, 14, 32), _grouped),
        "blocking": _graph((1, 1, 400, 16), lambda g, x: _convolved(g, x, (64, 1, 20, 16), stride=(1, 10))),
        "sparsity": _graph((1, 14, 14, 64), _sparsity),
        "operators": _graph((1, 28, 28, 32), _operators),
        "positions": _graph((1, 64, 48), _positions),
    }


def cut(directory: Path, target: str, models: Sequence[str] = (), most: int = 5) -> Iterator[tuple[str, Neighbourhood]]:
    """Yields (name of its file, neighbourhood) for the graphs for a target.

    Those with the most work of each graph come first, then those with the second most.
    models: only these; all if empty.
    most: most operators of a neighbourhood.
    """
    of_graphs = []
    for path in sorted(directory.glob(f"*.{target}*.tosa")):
        if ".stock." in path.name or models and path.name.partition(".")[0] not in models:
            continue
        found = neighbourhoods(loads(path.read_bytes(), str(path)), most=most)
        of_graphs.append([(path.name, part) for part in sorted(found, key=lambda n: -work(n.graph) * n.places)])
    return (place for of_rank in zip_longest(*of_graphs) for place in of_rank if place)


# ---- the study ----------------------------------------------------------------------------------


def blind(family: str, places: Sequence[tuple[str, Neighbourhood]], target: Target, pool: Pool) -> dict[str, Any]:
    """Returns the record of one family: whether anything is found in its stead.

    It searches the first neighbourhoods in which rules of the family fire and make the answer cheaper.
    """
    every, others = Discoverer(target, pool, RULES), Discoverer(target, pool, without(family))
    wanted = {r.name for r in RULES if r.family == family and not r.analysis}
    record: dict[str, Any] = {"found": False, "tried": 0}
    began = time.process_time()
    for name, part in places[:_MOST_LOOKED_AT]:
        if record["tried"] == _MOST_TRIED or record["found"]:
            break
        if not wanted & {r for r, n in saturate(part.graph, for_target(RULES, target)).saturation.matches.items() if n}:
            continue
        try:
            with_it, reached = every.known(part.graph), others.known(part.graph)
        except WorkerError:
            continue
        if with_it >= reached:
            continue
        record |= {
            "tried": record["tried"] + 1,
            "graph": name,
            "operators": part.operators,
            "with": with_it,
            "without": reached,
        }
        if found := others.discover(part):
            record |= {**found.record(), "found": True, "as_cheap": found.after <= with_it}
    return {**record, "seconds": round(time.process_time() - began, 1)}


def news(part: Neighbourhood, name: str, target: Target, pool: Pool) -> dict[str, Any]:
    """Returns the record of what is found in one neighbourhood with all rules."""
    began = time.process_time()
    found = Discoverer(target, pool, RULES).discover(part)
    record = {"graph": name, "operators": part.operators, "found": found is not None}
    return {**record, **(found.record() if found else {}), "seconds": round(time.process_time() - began, 1)}


def run(args: argparse.Namespace) -> str:
    """Fills `out`/records.jsonl and writes `out`/table.md, whose text it returns."""
    args.out.mkdir(parents=True, exist_ok=True)
    log = Log(args.out / "records.jsonl", itemgetter(*CELL), lambda r: True)
    with Pool() as pool:
        for name in args.targets.split(","):
            target, until = Target.of(name), time.monotonic() + args.seconds
            models = tuple(filter(None, args.models.split(",")))
            places = list(cut(args.tosa, name, models, args.most))
            for family in filter(None, args.families.split(",")):
                if ("blind", name, family) not in log.records:
                    graph = planted().get(family)
                    own = [("planted", Neighbourhood(graph, ()))] if graph else []
                    _add(log, "blind", name, family, blind(family, [*own, *places], target, pool))
            answers = list(cut(args.answers, name, models, args.most)) if args.answers else places
            for number, (graph_name, part) in enumerate(answers[: args.neighbourhoods]):
                subject = f"{graph_name} {number}"
                if ("news", name, subject) not in log.records and time.monotonic() < until:
                    _add(log, "news", name, subject, news(part, graph_name, target, pool))
    about = write_about(
        args.out,
        _PACKAGES,
        options=f"seconds {args.seconds:g}, neighbourhoods {args.neighbourhoods} of up to {args.most} operators",
    )
    text = table(list(log.records.values()), about)
    write_atomically(args.out / "table.md", text.encode())
    return text


def _add(log: Log, part: str, target: str, subject: str, record: dict[str, Any]) -> None:
    log.add({**dict(zip(CELL, (part, target, subject))), **record})
    print(part, target, subject, record.get("recipe", "-"), record["seconds"], flush=True)


def table(records: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """Returns what was found blind, and what no rule has, as Markdown."""
    families_, found = [r for r in records if r["part"] == "blind"], [r for r in records if r["part"] == "news"]
    lines = [
        "# Discovery",
        "",
        "Made by `python -m benchmarks.discovery study`.",
        f"{as_text(about)}; {about['options']}.",
        "",
    ]
    pay = sum(r["tried"] > 0 for r in families_)
    as_cheap = sum(r.get("as_cheap", False) for r in families_)
    in_part = sum(r["found"] and not r["as_cheap"] for r in families_)
    lines += [
        f"Blind: of {pay} pairs of a family and a target that pay, {as_cheap} "
        f"found again at no more cycles, {in_part} in part.",
        "",
        "| family | target | found as | in | cycles with the family | without | found | seconds |",
        "|---|---|---|---|--:|--:|--:|--:|",
    ]
    for r in families_:
        where = f"{r.get('operators', '')} of {r.get('graph', '')}" if r["tried"] else "it pays nowhere here"
        cells = [r.get("recipe", "-"), where, *(r.get(k, "-") for k in ("with", "without", "after")), r["seconds"]]
        lines.append(f"| {r['subject']} | {r['target']} | {' | '.join(map(str, cells))} |")
    new = [r for r in found if r["found"]]
    lines += [
        "",
        f"News: {len(new)} of {len(found)} neighbourhoods, in {sum(r['seconds'] for r in found):.0f} s.",
        "",
        "| target | graph | operators | as | places | before | by our rules | found |",
        "|---|---|---|---|--:|--:|--:|--:|",
    ]
    keys = ("target", "graph", "operators", "recipe", "places", "before", "known", "after")
    lines += [f"| {' | '.join(str(r[k]) for k in keys)} |" for r in sorted(new, key=lambda r: r["after"] - r["known"])]
    return "\n".join(lines) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the study's arguments to a parser."""
    parser.add_argument("--tosa", type=Path, required=True, help="a directory of .tosa files NAME.TARGET.tosa")
    parser.add_argument(
        "--answers", type=Path, help="a directory of graphs in which news is looked for; default: --tosa"
    )
    parser.add_argument("--targets", default="ethos-u85-256")
    parser.add_argument("--models", default="", help="default: all in the directory")
    parser.add_argument("--families", default=",".join(families()), help="tried blind; default: all")
    parser.add_argument("--most", type=int, default=5, help="operators of a neighbourhood, at most")
    parser.add_argument("--neighbourhoods", type=int, default=40, help="for each target, in which news is looked for")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each target, after which none is begun")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/discovery")


def check(args: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Ends the program if a family does not exist."""
    if unknown := set(filter(None, args.families.split(","))) - set(families()):
        parser.error(f"no such family: {', '.join(sorted(unknown))}; there are {', '.join(families())}")
