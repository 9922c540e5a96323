"""How time and memory grow with the graph: a search with default options on chains of transformer blocks, and on large
networks.

    python -m benchmarks.scale --tosa DIR --networks DIR --out benchmarks/results/scale

The first DIR holds what `eqsat bench` saves. Of its delegate `attention` (one transformer block, 172 operators) chains
are made, the output of each block the input of the next, of up to 30 blocks: graphs of 172 to 5,160 operators that
differ in nothing but size. The second DIR, if given, holds more such files, measured as they are: delegates of
`benchmarks.models.large`, which `--lower DIR` writes.

Each graph has a process of its own, and a cache of prices of its own. `records.jsonl` has a line per graph: operators,
e-nodes, e-classes, candidates, prices that were measured, seconds by stage, processor seconds of all processes,
resident memory of the process and all that it starts (looked at every 0.2 s), cycles. A run that was interrupted goes
on where it stopped. `table.md` and `scale.svg` are made from it.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ablation
from benchmarks.about import as_text, write_about
from eqsat.bench.log import Log
from eqsat.ground.files import write_atomically
from eqsat.ground.process import Limits, Process, WorkerError
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.store.local import LocalStore
from eqsat.store.store import PRICES
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, loads
from extraction import check
from extraction.reduce import reduce

#: The name of this module, also if it is run as a program.
_NAME = "benchmarks.scale"
ROOT = Path(__file__).parent.parent
TARGETS = ("ethos-u55-128", "ethos-u85-256")
#: The delegate of which chains are made, and their numbers of blocks.
BLOCK, LENGTHS = "attention", (1, 2, 4, 8, 16, 30)
#: Names of the networks in `benchmarks.models.large`.
LARGE = ("mobilevit_xxs", "vit_12", "densenet_121")
#: Limits at which a graph is given up.
MOST = Limits(mib=12 * 1024, seconds=3600)
#: The peak memory that a search should not exceed, in MiB.
AIM = 4 * 1024
#: Ticks of the axis of operators.
_TICKS = (200, 500, 1000, 2000, 5000)
#: Stages of a search whose seconds the table has.
STAGES = ("saturate", "price", "extract", "vela", "verify")
_PACKAGES = ("executorch", "ethos-u-vela", "tosa-tools", "egglog")


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph that is measured.

    explicit: its TOSA before the layout passes.
    stock: its TOSA as stock ExecuTorch lowers it, None if it does not.
    """

    name: str
    target: str
    explicit: bytes
    stock: bytes | None


def chained(graph: TensorGraph, times: int) -> TensorGraph:
    """Returns copies of a graph in a row.

    The first input of each copy is the first output of the one before.
    All other inputs and outputs of a copy stay inputs and outputs.
    """
    out = TensorGraph()
    link: int | None = None
    for k in range(times):
        number: dict[int, int] = {}
        for n in graph.live():
            node = graph.nodes[n]
            if link is not None and n == graph.inputs[0]:
                number[n] = link
            elif node.op == "input":
                number[n] = out.add_input(f"{node.attr('name')}.{k}", node.shape, node.dtype)
            elif node.op == "const":
                number[n] = out.add_copy(node, ())
            else:  # Types are inferred anew, because those of the link need not be those of the input.
                number[n] = out.add_with(node.op, [number[i] for i in node.inputs], node.attrs)
        link, *others = (number[o] for o in graph.outputs)
        out.outputs += others
    assert link is not None
    out.outputs.append(link)
    return out


def chains(directory: Path, targets: Sequence[str], lengths: Iterable[int]) -> Iterator[Graph]:
    """Yields the chains of each length, made of the saved graphs of BLOCK."""
    for length in lengths:
        for found in ablation.graphs(directory, [BLOCK], targets):
            both = (dumps(chained(loads(p.read_bytes()), length)) for p in (found.explicit, found.stock))
            yield Graph(f"{BLOCK} x {length}", found.target, *both)


def networks(directory: Path, targets: Sequence[str]) -> Iterator[Graph]:
    """Yields every delegate of a directory, the smallest first."""
    paths = sorted(directory.glob("*.explicit.tosa"), key=lambda p: (p.stat().st_size, p))
    for path in paths:
        model, delegate, target = path.name.removesuffix(".explicit.tosa").rsplit(".", 2)
        stock = path.with_name(path.name.replace(".explicit.", ".stock."))
        if target in targets:
            name = f"{model}.{delegate}"
            yield Graph(name, target, path.read_bytes(), stock.read_bytes() if stock.exists() else None)


def lower(directory: Path, targets: Sequence[str]) -> None:
    """Writes the delegates of the large networks at eqsat's hook point."""
    from eqsat.bench.lowering import prepare

    directory.mkdir(parents=True, exist_ok=True)
    for model in LARGE:
        for target in targets:
            for name, tosa in prepare(f"benchmarks.models.large:{model}", target)[0].items():
                delegate, kind = name.split(".")
                write_atomically(directory / f"{model}.{delegate}.{target}.{kind}.tosa", tosa)


def record_of(graph: Graph, limits: Limits = MOST) -> dict[str, Any]:
    """Returns the time and memory that one graph takes in a process of its own.

    A failure is a record with its error.
    """
    record: dict[str, Any] = {"graph": graph.name, "target": graph.target}
    started = time.perf_counter()
    with Process(_NAME) as process:
        try:
            record |= process.call(f"{_NAME}:measure", graph.explicit, graph.stock, graph.target, limits=limits)
        except WorkerError as e:
            record["error"] = str(e)
        record["peak_mib"] = round(process.peak_mib)
    record["seconds"] = round(time.perf_counter() - started, 2)
    return record


def measure(explicit: bytes, stock: bytes | None, target: str) -> dict[str, Any]:
    """Returns the figures of a search with default options, and of one reduction of its choice graph by itself.

    search, processor, stages, reduce: seconds.
    stock, explicit, eqsat: cycles.
    """
    operators = sum(loads(explicit).op_counts().values())
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        result = optimize_tosa(explicit, target, stock=stock, options=Options(cache=Path(place) / "store.sqlite"))
        with closing(LocalStore(Path(place) / "store.sqlite")) as store:
            prices = store.size(PRICES)[0]
    search = time.perf_counter() - started
    processor = sum(
        r.ru_utime + r.ru_stime for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
    record = {
        "operators": operators,
        "e_nodes": result.e_nodes,
        "stop": result.stop,
        "prices": prices,
        "stock": result.stock_cycles,
        "explicit": result.explicit_cycles,
        "eqsat": result.cycles,
        "chosen": result.chosen,
        "verified": result.verified,
        "binary_verified": result.binary_verified,
        "gap": next((e.gap for e in reversed(result.extractions) if e.gap is not None), None),
        "search": round(search, 2),
        "processor": round(processor, 2),
        "stages": {k: round(v, 2) for k, v in result.seconds.items()},
        "warnings": result.warnings,
    }
    if result.run is None:
        return record
    choices = result.run.choices
    graph, cost = choices.graph, check(choices.graph, result.run.choice)
    started = time.perf_counter()
    reduced = reduce(graph, cost).graph
    return record | {
        "e_classes": sum(map(bool, choices.frozen.classes)),
        "choices": graph.n_nodes,
        "reduced": reduced.n_nodes,
        "reduce": round(time.perf_counter() - started, 2),
    }


def fit(records: Sequence[Mapping[str, Any]], key: str) -> tuple[float, float]:
    """Returns (a, b) of a * operators ** b through the chains of one target.

    It is the least-squares fit of the logarithms.
    """
    points = [(r["operators"], r[key]) for r in records if r["graph"].startswith(BLOCK) and r.get(key)]
    b, a = np.polyfit(*np.log(np.array(points, float)).T, 1)
    return float(np.exp(a)), float(b)


def table(records: Sequence[Mapping[str, Any]], about: Mapping[str, Any]) -> str:
    """Returns a line per graph, and how seconds and memory of the chains grow, as Markdown."""
    lines = [
        "# Scale",
        "",
        f"Default options, an empty cache of prices for each graph. {BLOCK} x N: N transformer blocks in a row. Made by `python -m benchmarks.scale`.",
        f"{as_text(about)}; {about['machine']}.",
        "",
        f"| graph | target | operators | e-nodes | saturation | prices | {' | '.join(f'{s}, s' for s in STAGES)} | one reduction, s | whole, s | processor, s | peak, MiB | cycles, stock | eqsat | ratio |",
        "|---|---|--:|--:|---|" + "--:|" * (len(STAGES) + 8),
    ]
    for r in records:
        head = f"| {r['graph']} | {r['target']} |"
        if "error" in r:
            lines.append(f"{head} {r['error']} after {r['seconds']:.0f} s, {r['peak_mib']:,} MiB |" + " |" * 15)
            continue
        stages = " | ".join(f"{r['stages'].get(s, 0.0):.1f}" for s in STAGES)
        ratio = f"{r['eqsat'] / r['stock']:.3f}" if r["stock"] else "-"
        lines.append(
            f"{head} {r['operators']:,} | {r['e_nodes']:,} | {r['stop']} | {r['prices']:,} | {stages} | {r.get('reduce', 0.0):.1f} | {r['search']:.1f} | {r['processor']:.1f} "
            f"| {r['peak_mib']:,} | {r['stock'] or 0:,} | {r['eqsat']:,} | {ratio} |"
        )
    lines += ["", "| chains, by operators n | seconds | processor seconds | MiB |", "|---|--:|--:|--:|"]
    for target, mine in _by_target(records).items():
        fitted = (fit(mine, key) for key in ("search", "processor", "peak_mib"))
        lines.append(f"| {target} | {' | '.join(f'{a:.3g} n^{b:.2f}' for a, b in fitted)} |")
    over = [r for r in records if r["peak_mib"] > AIM]
    named = ", ".join(f"{r['graph']} on {r['target']} ({r['peak_mib']:,} MiB)" for r in over)
    lines += ["", f"More than {AIM:,} MiB: {named or 'none'}."]
    return "\n".join(lines) + "\n"


def _by_target(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Returns the measured records of chains by target, where there are at least two sizes."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for r in records:
        if "error" not in r and r["graph"].startswith(BLOCK):
            found.setdefault(r["target"], []).append(r)
    return {target: mine for target, mine in found.items() if len({r["operators"] for r in mine}) > 1}


def plot(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draws seconds, processor seconds and memory against operators, with all axes logarithmic.

    Chains are joined, networks are crosses.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4))
    measured = [r for r in records if "error" not in r]
    panels = (("search", "seconds"), ("processor", "processor seconds"), ("peak_mib", "peak memory [MiB]"))
    for axis, (key, label) in zip(axes, panels, strict=True):
        for k, target in enumerate(dict.fromkeys(r["target"] for r in measured)):
            mine = sorted((r for r in measured if r["target"] == target), key=itemgetter("operators"))
            for is_chain, style in ((True, "o-"), (False, "x")):
                points = [(r["operators"], r[key]) for r in mine if r["graph"].startswith(BLOCK) == is_chain]
                if points:
                    axis.plot(*zip(*points, strict=True), style, color=f"C{k}", label=target if is_chain else None)
        axis.set(xscale="log", yscale="log", xlabel="operators", ylabel=label)
        axis.set_xticks(_TICKS, [str(t) for t in _TICKS])
        axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.grid(True, which="both", alpha=0.3)
    axes[2].axhline(AIM, color="black", linestyle="--", linewidth=1)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def run(graphs: Iterable[Graph], out: Path, limits: Limits = MOST) -> str:
    """Fills `out`/records.jsonl, writes the table and the plot, and returns the text of the table."""
    out.mkdir(parents=True, exist_ok=True)
    about = write_about(out, _PACKAGES, machine=f"{os.cpu_count()} cores")
    log = Log(out / "records.jsonl", itemgetter("graph", "target"))
    for graph in graphs:
        if (graph.name, graph.target) not in log.records:
            record = record_of(graph, limits)
            log.add(record)
            print({k: v for k, v in record.items() if k != "warnings"}, flush=True)
    records = list(log.records.values())
    text = table(records, about)
    write_atomically(out / "table.md", text.encode())
    plot(records, out / "scale.svg")
    return text


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tosa", type=Path, help=f"graphs that `eqsat bench` saved, {BLOCK} among them")
    parser.add_argument("--networks", type=Path, help="more graphs, measured as they are")
    parser.add_argument("--lower", type=Path, help="write the delegates of the large networks here, and nothing else")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="blocks of the chains")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/scale")
    args = parser.parse_args(argv)
    targets = args.targets.split(",")
    if args.lower:
        lower(args.lower, targets)
        return
    found: list[Iterator[Graph]] = []
    if args.tosa:
        found.append(chains(args.tosa, targets, map(int, args.lengths.split(","))))
    if args.networks:
        found.append(networks(args.networks, targets))
    if not found:
        parser.error("--tosa, --networks or both are needed")
    print(run((graph for graphs in found for graph in graphs), args.out))


if __name__ == "__main__":
    main()
