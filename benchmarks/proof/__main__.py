"""What the checker of `eqsat prove` proves: saved graphs of two producers, and graphs with an error planted.

    python -m benchmarks.proof --random 150 --tosa RUN/graphs --mutants 10 --out benchmarks/results/proof
    python -m benchmarks.proof --smoke --out DIR

RUN/graphs has <model>.<delegate>.<target>.{explicit,stock}.tosa, as `eqsat bench` saves them; <...>.answer.tosa beside
them is proved too. Each is compared with the explicit graph, and so is stock's graph with one error each. Of errors
that are proved to be none, no sample may show a difference: --proved-samples of them, or as many as --seconds of a
processor have time for. Of those that are not, the first few of --samples tell which ones samples would have missed.
`graphs.jsonl` and `mutants.jsonl` have a line each, `run.json` the commit and the versions, `table.md` is made from
them. Exit code 1 if something was proved that differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.about import arguments, as_text, markdown_table, write_about, write_lines, write_text
from benchmarks.proof.mutants import mutants
from eqsat.proof import PROVED, Prover
from eqsat.proof.counterexample import defined_outputs
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, sample
from eqsat.tensor.types import Array, GraphError
from eqsat.tosa.flatbuffer import dumps, loads
from tests.random_graphs import RULE, random_graph

_PACKAGES = ("eqsat", "numpy")
#: Number of samples of verification before there were proofs.
_FEW = 6
_SUFFIX = ".explicit.tosa"
#: Bytes that all samples of a graph may take.
_MEMORY = 1 << 28
Record = dict[str, Any]


class Samples:
    """The outputs of a graph on samples on which it does not overflow, each computed when it is first needed."""

    def __init__(self, graph: TensorGraph) -> None:
        self._graph, self._domains, self._rng = graph, domains(graph), np.random.default_rng(0)
        self._known: list[tuple[Sequence[Array], list[Array]]] = []
        self._drawn, ends = 0, (*graph.inputs, *graph.outputs)
        self._room = _MEMORY // max(1, sum(graph.type(n).elements * DType.of(graph.type(n).dtype).size for n in ends))

    def first_difference(self, other: TensorGraph, most: int, seconds: float) -> tuple[int | None, int]:
        """Returns (number of the first sample on which another graph differs, number of samples compared).

        The first is None if none differs.
        seconds: of the processor, after which no other sample is compared.
        """
        end = time.thread_time() + seconds
        for k in range(most):
            if time.thread_time() > end or not self._has(k, most):
                return None, k
            inputs, expected = self._known[k]
            if not all(np.array_equal(x, y) for x, y in zip(expected, other.evaluate(inputs), strict=True)):
                return k, k + 1
        return None, most

    def _has(self, k: int, most: int) -> bool:
        """Tells whether sample `k` exists among the first `most` that are drawn; draws more if needed."""
        while k >= len(self._known) and self._drawn < min(most, self._room):
            inputs = sample(self._domains, self._drawn, self._rng)
            self._drawn += 1
            outputs = defined_outputs(self._graph, inputs)
            self._known += [] if outputs is None else [(inputs, outputs)]
        return k < len(self._known)


def of_graph(
    name: str, explicit: TensorGraph, others: dict[str, TensorGraph], asked: argparse.Namespace
) -> tuple[list[Record], list[Record]]:
    """Returns the records of the graphs that were made of one explicit graph, and those of mutants of stock's.

    asked: the options of the command line.
    """
    prover, proofs = Prover(explicit, seed=1), []
    for kind, other in others.items():
        p = prover.prove(other, search=False)
        proofs.append(
            {
                "graph": name,
                "of": kind,
                "verdict": p.verdict,
                "error_bound": p.error_bound,
                "seconds": round(p.seconds, 2),
                "undecided": [u.text for u in p.undecided],
            }
        )
    drawn, errors = Samples(explicit), []
    for m in mutants(others.get("stock", explicit), asked.mutants):
        p = prover.prove(m.graph, search=False)
        most = asked.proved_samples if p.verdict == PROVED else asked.samples
        try:
            differs, compared = drawn.first_difference(m.graph, most, asked.seconds)
        except (ArithmeticError, GraphError, IndexError):
            continue  # The mutant computes something that TOSA leaves undefined.
        errors.append(
            {
                "graph": name,
                "kind": m.kind,
                "op": m.graph.nodes[m.node].op,
                "verdict": p.verdict,
                "sample": differs,
                "samples": compared,
                "seconds": round(p.seconds, 2),
            }
        )
    return proofs, errors


def saved(places: Sequence[Path], only: Sequence[str]) -> Iterator[tuple[str, TensorGraph, dict[str, TensorGraph]]]:
    """Yields (name, explicit graph, {kind: another graph}) of saved graphs."""
    for path in sorted(p for place in places for p in place.glob("*" + _SUFFIX)):
        name = path.name.removesuffix(_SUFFIX)
        if only and name.split(".")[0] not in only:
            continue
        beside = {kind: path.with_name(f"{name}.{kind}.tosa") for kind in ("stock", "answer")}
        yield name, loads(path.read_bytes()), {k: loads(f.read_bytes()) for k, f in beside.items() if f.exists()}


def made(count: int) -> Iterator[tuple[str, TensorGraph, dict[str, TensorGraph]]]:
    """Yields `count` random graphs, each with itself written and read again, whose inputs can be drawn."""
    for seed in range(count):
        graph = random_graph(seed, RULE)
        yield f"random-{seed}", graph, {"stock": loads(dumps(graph))}


def summary(proofs: Sequence[Record], errors: Sequence[Record]) -> Record:
    """Returns the counts of proofs and of mutants."""
    proved = [e for e in errors if e["verdict"] == PROVED]
    compared = sorted(e["samples"] for e in proved) or [0]
    refused = [e for e in errors if e["verdict"] != PROVED]
    return {
        "graphs": len(proofs),
        "graphs proved": sum(p["verdict"] == PROVED for p in proofs),
        "mutants": len(errors),
        "proved equal": len(proved),
        "proved though a sample differs": sum(e["sample"] is not None for e in proved),
        "samples of each that is proved, least": compared[0],
        "samples of each that is proved, median": compared[len(compared) // 2],
        "refused": len(refused),
        f"refused, {_FEW} samples show nothing": sum(e["sample"] is None or e["sample"] >= _FEW for e in refused),
        "refused, no sample shows anything": sum(e["sample"] is None for e in refused),
    }


def write(out: Path, proofs: Sequence[Record], errors: Sequence[Record], about: Record) -> Record:
    """Writes the records and the table, and returns the counts."""
    for name, records in (("graphs", proofs), ("mutants", errors)):
        write_lines(out / f"{name}.jsonl", records)
    found = summary(proofs, errors)
    seconds = [p["seconds"] for p in proofs] or [0.0]
    rows = [
        *found.items(),
        ("seconds of a proof, geometric mean", round(float(np.exp(np.mean(np.log(np.maximum(seconds, 0.01))))), 2)),
        ("seconds of a proof, worst", max(seconds)),
    ]
    by_kind = {
        kind: summary([], [e for e in errors if e["kind"] == kind]) for kind in sorted({e["kind"] for e in errors})
    }
    counted = ("mutants", "proved equal", "refused", "refused, no sample shows anything")
    open_ = [f"* {p['graph']}, {p['of']}: {'; '.join(p['undecided'])}" for p in proofs if p["verdict"] != PROVED]
    lines = [
        "# Proofs",
        "",
        as_text(about),
        "",
        *markdown_table(("of saved and random graphs, and of mutants", ""), rows),
        *markdown_table(("error", *counted), ([kind, *(s[k] for k in counted)] for kind, s in by_kind.items())),
        *(["Not proved:", "", *open_, ""] if open_ else []),
    ]
    write_text(out / "table.md", "\n".join(lines))
    return found


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__, "proof")
    parser.add_argument(
        "--tosa", type=Path, action="append", default=[], help="directory of saved graphs; several times"
    )
    parser.add_argument("--random", type=int, default=0, help="random graphs")
    parser.add_argument("--only", nargs="*", default=[], help="names of models")
    parser.add_argument("--mutants", type=int, default=20, help="per graph")
    parser.add_argument("--samples", type=int, default=24, help="per mutant that is not proved")
    parser.add_argument("--proved-samples", type=int, default=10_000, help="per mutant that is proved, at most")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a processor, for the samples of one mutant")
    parser.add_argument("--smoke", action="store_true", help="few errors in random graphs")
    args = parser.parse_args(argv)
    if args.smoke:
        args.random, args.mutants, args.samples, args.proved_samples = 2, 3, 8, 100
    graphs = chain(made(args.random), saved(args.tosa, args.only))
    about = write_about(args.out, _PACKAGES, mutants=args.mutants, samples=args.proved_samples)
    proofs: list[Record] = []
    errors: list[Record] = []
    for name, explicit, others in graphs:
        new = of_graph(name, explicit, others, args)
        proofs += new[0]
        errors += new[1]
        found = write(args.out, proofs, errors, about)
        print(name, [(p["of"], p["verdict"], p["seconds"]) for p in new[0]], json.dumps(summary(*new)), flush=True)
    if not proofs:
        parser.error(
            "no graphs: name a directory with *.explicit.tosa with --tosa, or a number of random ones with --random"
        )
    print(json.dumps(found))
    return 1 if found["proved though a sample differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
