"""One planted error: whether it changes anything at all, and which part of verification notices it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from benchmarks.planted_errors.edits import WRONG, Edit, applied, edits, graphs_with
from benchmarks.planted_errors.subjects import Subject
from eqsat.bench.records import Record
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.proof import DIFFERENT, PROVED, Prover
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import DType
from eqsat.tosa.reference import Reference

#: Numbers of constant planes, random planes and samples in the search for an input on which an error shows.
_PLANES, _RANDOM_PLANES, _SAMPLES = 64, 64, 32


class Trial:
    """A subject, with the data that all errors in it are compared with."""

    def __init__(self, subject: Subject, pool: Pool) -> None:
        self.subject, self.graph = subject, subject.graph
        self.prover, self.reference = Prover(self.graph), Reference(self.graph, pool)
        self._known: list[tuple[Sequence[np.ndarray], list[np.ndarray]]] = []
        self._search = self._inputs()

    def _inputs(self) -> Iterator[list[np.ndarray]]:
        """Yields inputs on which an error may show.

        First there are planes. If the graph has one input, each of them has one code, so that each code of INT8 occurs
        in some channel. Planes of random codes follow, then samples as verification draws them, of another seed.
        """
        rng = np.random.default_rng(99)
        given = domains(self.graph)
        for k in range(_PLANES + _RANDOM_PLANES):
            xs = []
            for d in given:
                t, (low, high) = d.type, DType.of(d.type.dtype).limits
                count, span = t.shape[-1] if t.shape else 1, high - low + 1
                if k < _PLANES and len(given) == 1:
                    codes = low + (np.arange(count) + k * count) * max(1, span // 256) % span
                else:
                    codes = rng.integers(low, high, count, endpoint=True)
                xs.append(np.broadcast_to(codes if t.shape else codes[0], t.shape).astype(DType.of(t.dtype).storage))
            yield xs
        yield from samples(given, _SAMPLES, seed=99)

    def changes(self, found: TensorGraph) -> bool:
        """Tells whether an input was found on which the outputs differ.

        Raises GraphError if numpy cannot compute a graph.
        """
        return any(
            not all(np.array_equal(x, y) for x, y in zip(want, found.evaluate(inputs), strict=True))
            for inputs, want in chain(tuple(self._known), self._more())
        )

    def _more(self) -> Iterator[tuple[Sequence[np.ndarray], list[np.ndarray]]]:
        """Yields further inputs with the outputs for them, and keeps both for the next graph."""
        for inputs in self._search:
            self._known.append((inputs, self.graph.evaluate(inputs)))
            yield self._known[-1]

    def planted(self, kind: str, what: str, found: TensorGraph) -> Record | None:
        """Returns the outcome for one graph, None if numpy cannot compute it.

        inputs: number of inputs of the graph.
        pool: side of the plane whose mean is the output, 0 if there is no mean.
        kind, what: what is wrong, and where.
        changes: whether an input was found on which the outputs differ; otherwise the rest does not count.
        equivalent: whether the prover proves that they never do; without either it is not known.
        outputs: whether it passes the comparison of outputs on the reference model.
        passes: whether it passes verification, which takes what is proved.
        """
        s = self.subject
        record: Record = {"inputs": len(s.graph.inputs), "dtype": s.dtype, "pool": s.pool, "kind": kind, "what": what}
        nothing = {"outputs": False, "passes": False}
        try:
            verdict = self.prover.prove(found).verdict
            if verdict != DIFFERENT and not self.changes(found):
                return {**record, "changes": False, **nothing, "equivalent": verdict == PROVED}
        except (ArithmeticError, IndexError, ValueError):
            return None
        try:
            outputs = self.reference.compare(found).equal
        except WorkerError:  # The graph is UNPREDICTABLE and its source is not, so the reference model notices.
            outputs = False
        return {**record, "changes": True, "outputs": outputs, "passes": verdict == PROVED, "equivalent": False}


def chosen(all_edits: Iterable[Edit], count: int, seed: int) -> list[Edit]:
    """Returns `count` edits, of as many kinds as there are."""
    rng = np.random.default_rng(seed)
    by_kind: dict[str, list[Edit]] = {}
    for e in all_edits:
        by_kind.setdefault(e.kind, []).append(e)
    kinds = sorted(by_kind)
    rng.shuffle(kinds)
    out: list[Edit] = []
    while len(out) < count and any(by_kind.values()):
        for kind in kinds:
            if by_kind[kind] and len(out) < count:
                out.append(by_kind[kind].pop(int(rng.integers(len(by_kind[kind])))))
    return out


def in_subject(subject: Subject, number: int, count: int, with_rules: bool, pool: Pool) -> Iterator[Record]:
    """Plants up to `count` edits in one subject, and every wrong rule if `with_rules`, and yields the outcomes."""
    trial, left = Trial(subject, pool), count
    for edit in chosen(edits(subject.graph), 3 * count, number):
        edited = applied(subject.graph, edit) if left else None
        what = f"n{edit.node} ({subject.graph.nodes[edit.node].op})"
        if edited is not None and (result := trial.planted(edit.kind, what, edited)) is not None:
            left -= result["changes"]
            yield result
    for k, wrong in enumerate(WRONG if with_rules else ()):
        for plan, found in enumerate(graphs_with(wrong, subject.graph, 100 * number + k)):
            if (result := trial.planted(f"rule {wrong.name}", f"extraction {plan}", found)) is not None:
                yield result
