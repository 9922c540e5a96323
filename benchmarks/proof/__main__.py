"""What the checker of `eqsat prove` proves: saved graphs of two producers, and graphs with an error planted.

    python -m benchmarks.proof --random 150 --tosa RUN/graphs --mutants 8 --out benchmarks/results/proof
    python -m benchmarks.proof --smoke --out DIR

RUN/graphs has <model>.<delegate>.<target>.{explicit,stock}.tosa, as `eqsat bench` saves them; <...>.answer.tosa beside
them is proved too. Each is compared with the explicit graph, and so is stock's graph with one error each. Of errors
that are proved to be none, as many samples as --samples must show no difference; of those that are not, the first few
tell which ones samples of that number would have missed. `graphs.jsonl` and `mutants.jsonl` have a line each,
`run.json` the commit and the versions, `table.md` is made from them. Exit code 1 if something was proved that differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.about import as_text, write_about
from benchmarks.proof.mutants import mutants
from eqsat.checking.random_graphs import RULE, random_graph
from eqsat.proof import PROVED, Prover
from eqsat.proof.counterexample import without_overflow
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Array, GraphError
from eqsat.tosa.flatbuffer import dumps, loads

ROOT = Path(__file__).parents[2]
_PACKAGES = ("eqsat", "numpy")
#: Samples of verification as it was before there were proofs.
_FEW = 6
_SUFFIX = ".explicit.tosa"
Record = dict[str, Any]


class Samples:
    """A graph's outputs on samples on which it does not overflow, each computed when it is first needed."""

    def __init__(self, graph: TensorGraph, most: int) -> None:
        self._graph, self._most = graph, most
        self._known: list[tuple[Sequence[Array], list[Array]]] = []
        self._left = self._drawn()

    def _drawn(self) -> Iterator[tuple[Sequence[Array], list[Array]]]:
        for inputs in samples(domains(self._graph), self._most):
            outputs = without_overflow(self._graph, inputs)
            if outputs is not None:
                yield inputs, outputs

    def first_difference(self, other: TensorGraph) -> int | None:
        """The number of the first sample on which another graph gives something else; None: there is none."""
        k = 0
        while k < len(self._known) or self._one_more():
            inputs, expected = self._known[k]
            if not all(np.array_equal(x, y) for x, y in zip(expected, other.evaluate(inputs), strict=True)):
                return k
            k += 1
        return None

    def _one_more(self) -> bool:
        new = next(self._left, None)
        self._known += [new] if new else []
        return new is not None


def of_graph(
    name: str, explicit: TensorGraph, others: dict[str, TensorGraph], count: int, trials: int
) -> tuple[list[Record], list[Record]]:
    """The records of what was written from one explicit graph, and of mutants of stock's."""
    prover, proofs = Prover(explicit, seed=1), []
    for kind, other in others.items():
        p = prover.prove(other, search=False)
        places = [f"{u.operator}: {u.reason}" for u in p.undecided]
        proofs.append(
            {
                "graph": name,
                "of": kind,
                "verdict": p.verdict,
                "error_bound": p.error_bound,
                "seconds": round(p.seconds, 2),
                "undecided": places,
            }
        )
    drawn, errors = Samples(explicit, trials), []
    for m in mutants(others.get("stock", explicit), count):
        p = prover.prove(m.graph, search=False)
        try:
            differs = drawn.first_difference(m.graph)
        except (ArithmeticError, GraphError, IndexError):
            continue  # it meets what TOSA leaves open
        errors.append(
            {
                "graph": name,
                "kind": m.kind,
                "op": m.graph.nodes[m.node].op,
                "verdict": p.verdict,
                "sample": differs,
                "seconds": round(p.seconds, 2),
            }
        )
    return proofs, errors


def saved(places: Sequence[Path], only: Sequence[str]) -> Iterator[tuple[str, TensorGraph, dict[str, TensorGraph]]]:
    """(name, explicit graph, {kind: another}) of saved graphs."""
    for path in sorted(p for place in places for p in place.glob("*" + _SUFFIX)):
        name = path.name.removesuffix(_SUFFIX)
        if only and name.split(".")[0] not in only:
            continue
        beside = {kind: path.with_name(f"{name}.{kind}.tosa") for kind in ("stock", "answer")}
        yield name, loads(path.read_bytes()), {k: loads(f.read_bytes()) for k, f in beside.items() if f.exists()}


def made(count: int) -> Iterator[tuple[str, TensorGraph, dict[str, TensorGraph]]]:
    """So many random graphs, as they are read again, whose inputs can be drawn."""
    for seed in range(count):
        graph = random_graph(seed, RULE)
        yield f"random-{seed}", graph, {"stock": loads(dumps(graph))}


def summary(proofs: Sequence[Record], errors: Sequence[Record]) -> Record:
    proved = [e for e in errors if e["verdict"] == PROVED]
    refused = [e for e in errors if e["verdict"] != PROVED]
    return {
        "graphs": len(proofs),
        "graphs proved": sum(p["verdict"] == PROVED for p in proofs),
        "mutants": len(errors),
        "proved equal": len(proved),
        "proved though a sample differs": sum(e["sample"] is not None for e in proved),
        "refused": len(refused),
        f"refused, {_FEW} samples show nothing": sum(e["sample"] is None or e["sample"] >= _FEW for e in refused),
        "refused, no sample shows anything": sum(e["sample"] is None for e in refused),
    }


def write(out: Path, proofs: Sequence[Record], errors: Sequence[Record], about: Record) -> Record:
    """The records and the table."""
    for name, records in (("graphs", proofs), ("mutants", errors)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    found = summary(proofs, errors)
    seconds = [p["seconds"] for p in proofs] or [0.0]
    rows = [
        *found.items(),
        ("seconds of a proof, geometric mean", round(float(np.exp(np.mean(np.log(np.maximum(seconds, 0.01))))), 2)),
        ("seconds of a proof, worst", max(seconds)),
    ]
    kinds = sorted({e["kind"] for e in errors})
    table = "| of saved and random graphs, and of mutants | |\n| --- | ---: |\n" + "".join(
        f"| {k} | {v} |\n" for k, v in rows
    )
    table += "\n| error | mutants | proved equal | refused | refused, no sample shows it |\n"
    table += "| --- | ---: | ---: | ---: | ---: |\n"
    for kind in kinds:
        s = summary([], [e for e in errors if e["kind"] == kind])
        table += f"| {kind} | {s['mutants']} | {s['proved equal']} | {s['refused']} | "
        table += f"{s['refused, no sample shows anything']} |\n"
    open_ = "".join(
        f"* {p['graph']}, {p['of']}: {'; '.join(p['undecided'])}\n" for p in proofs if p["verdict"] != PROVED
    )
    (out / "table.md").write_text(
        f"# Proofs\n\n{as_text(about)}\n\n{table}" + (f"\nNot proved:\n\n{open_}" if open_ else "")
    )
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tosa", type=Path, action="append", default=[], help="directory of saved graphs; several times"
    )
    parser.add_argument("--random", type=int, default=0, help="random graphs")
    parser.add_argument("--only", nargs="*", default=[], help="names of models")
    parser.add_argument("--mutants", type=int, default=20, help="per graph")
    parser.add_argument("--samples", type=int, default=24, help="per mutant")
    parser.add_argument("--smoke", action="store_true", help="few errors in random graphs")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/proof")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    if args.smoke:
        args.random, args.mutants, args.samples = 2, 3, 8
    graphs = chain(made(args.random), saved(args.tosa, args.only))
    about = write_about(args.out, _PACKAGES, mutants=args.mutants, samples=args.samples)
    proofs: list[Record] = []
    errors: list[Record] = []
    for name, explicit, others in graphs:
        new = of_graph(name, explicit, others, args.mutants, args.samples)
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
