"""Whether two graphs are equal for every input.

Both are evaluated once, at one random point of prime fields (`field.py`), with functions in a normal form.
Equal values mean equal graphs, up to a probability of error that the proof states.
Unequal values prove nothing: then a counterexample is searched, and without one the answer is "undecided".

>>> from eqsat.tensor.graph import TensorGraph
>>> def graph(*perms):
...     g = TensorGraph()
...     x = g.add_input("x", (2, 3, 4), "INT8")
...     for p in perms:
...         x = g.add("transpose", [x], perms=p)
...     g.outputs.append(x)
...     return g
>>> proof = prove(graph((1, 2, 0), (1, 2, 0)), graph((2, 0, 1)))
>>> proof.verdict, proof.error_bound < 2**-60
('proved', True)
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from eqsat.ground.files import InputError
from eqsat.proof.counterexample import Counterexample, find_counterexample, likely_inputs
from eqsat.proof.evaluation import Seen, describe, evaluate
from eqsat.proof.field import Field, Lanes
from eqsat.proof.pairs import Pairs
from eqsat.proof.steps import OutOfTime, Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array

Verdict = Literal["proved", "different", "undecided"]
PROVED: Final = "proved"
DIFFERENT: Final = "different"
UNDECIDED: Final = "undecided"
#: log2 of the largest probability of error that a proof may have.
LARGEST_ERROR = -60.0
#: Operators that an undecided proof names, at most.
_NAMED = 4


class SignatureError(ValueError):
    """Two graphs whose inputs or outputs differ in number or type cannot be compared."""


@dataclass(frozen=True, slots=True)
class Open:
    """An operator of the second graph at which a proof ended.

    operator: for people. node: its number, -1 if unknown.
    reason: what was not shown.
    """

    operator: str
    node: int
    reason: str

    @property
    def text(self) -> str:
        return f"{self.operator}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of comparing two graphs.

    verdict: "proved", "different" or "undecided".
    "proved": equal for every input on which the first graph's result is defined.
    It is undefined where the graph overflows or meets what TOSA leaves undefined.
    "different": there is a counterexample.
    undecided: the operators at which the proof ended.
    outputs: numbers of the outputs that are not proved.
    error_bound: bound on the probability that "proved" is wrong, over the choice of seeds; 1 for other verdicts.
    seconds: wall-clock time.
    """

    verdict: Verdict
    undecided: tuple[Open, ...] = ()
    outputs: tuple[int, ...] = ()
    error_bound: float = 1.0
    seeds: tuple[int, ...] = ()
    seconds: float = 0.0
    counterexample: Counterexample | None = None


@dataclass(slots=True)
class Side:
    """One graph, evaluated at one random point; fingerprints: {node: fingerprint of its values}, if asked for."""

    terms: Terms
    outputs: list[Lanes]
    fingerprints: dict[int, tuple[int, int]] = field(default_factory=dict)


def prove(
    a: TensorGraph,
    b: TensorGraph,
    *,
    seed: int | None = None,
    search: bool = True,
) -> Proof:
    """Returns the proof that b equals a for every input, or why there is none.

    The arguments are those of `Prover` and `Prover.prove`. Raises SignatureError.
    """
    return Prover(a, seed).prove(b, search=search)


class Prover:
    """Compares any number of graphs with one, which is evaluated once. It is not thread-safe.

    seed: of the random point; None: a new one.
    seconds: processor time of the calling thread after which a proof is undecided, checked between operators.
    """

    def __init__(self, graph: TensorGraph, seed: int | None = None, seconds: float = math.inf) -> None:
        self.graph = graph
        self.seed = secrets.randbits(63) if seed is None else seed
        self._seconds, self._until = seconds, math.inf
        self._sources: dict[tuple[int, bool], Side | Undecidable] = {}

    def begin(self) -> None:
        """Evaluates the graph, which the first proof does otherwise."""
        self._until = time.thread_time() + self._seconds
        with contextlib.suppress(Undecidable):
            self.source(self.seed)

    def prove(self, other: TensorGraph, *, search: bool = True) -> Proof:
        """Returns the proof that another graph equals this one, or why there is none.

        search: whether to look for a counterexample of what is not proved.
        Raises SignatureError.
        """
        began = time.perf_counter()
        self._until = time.thread_time() + self._seconds
        check_signatures(self.graph, other)
        try:
            found = self._whole(other)
            if found.outputs:
                found = self._by_tables(other, found)
        except Undecidable as e:
            found = Proof(UNDECIDED, (Open(str(e), -1, e.reason),), seeds=(self.seed,))
        if found.verdict != PROVED:
            found = self._explain(other, found, search)
        return replace(found, seconds=time.perf_counter() - began)

    def _explain(self, other: TensorGraph, found: Proof, search: bool) -> Proof:
        """Returns a failed proof with a counterexample or with the operators at which it ended."""
        unexplained = bool(found.outputs) and not found.undecided
        if not search and not unexplained:
            return found
        try:
            new = self._new(other)
        except Undecidable:
            new = None
        if search and (witness := find_counterexample(self.graph, other, self._likely(other, new, found.outputs))):
            found = replace(found, verdict=DIFFERENT, counterexample=witness)
        if unexplained and new is not None:
            found = replace(found, undecided=_where(other, found.outputs, set(new[1])))
        return found

    # ---- as a whole --------------------------------------------------------------------------------

    def _whole(self, other: TensorGraph, *, by_tables: bool = False) -> Proof:
        seeds, bound = [self.seed], 0.0
        while True:
            source = self.source(seeds[-1], by_tables)
            side = evaluate_at(other, seeds[-1], source.terms, self._in_time, by_tables=by_tables)
            if wrong := unequal(source, side):
                return Proof(UNDECIDED, outputs=wrong, seeds=tuple(seeds))
            if beyond := _overflowing(other, source.terms, side.terms):
                return Proof(UNDECIDED, beyond, seeds=tuple(seeds))
            bound += error_bound(source.terms, side.terms)
            if bound < LARGEST_ERROR:
                return Proof(PROVED, error_bound=2.0**bound, seeds=tuple(seeds))
            seeds.append((seeds[-1] * 2 + 1) % (1 << 63))

    def _by_tables(self, other: TensorGraph, found: Proof) -> Proof:
        """Returns the proof by tables of functions of two values, or `found` if that fails too."""
        try:
            again = self._whole(other, by_tables=True)
        except Undecidable:
            return found
        return again if again.verdict == PROVED else found

    def source(self, seed: int, by_tables: bool = False, *, until: float | None = None) -> Side:
        """Returns the graph at the point of a seed, at which it is evaluated once. Raises Undecidable.

        until: processor time at which another proof ends, after which the next one tries again; None: this prover's.
        """
        key = seed, by_tables
        if key not in self._sources:
            seen = self._in_time if until is None else in_time(until)
            try:
                self._sources[key] = source_of(self.graph, seed, seen, by_tables=by_tables)
            except Undecidable as e:
                if until is not None and isinstance(e, OutOfTime):
                    raise
                self._sources[key] = e
        found = self._sources[key]
        if isinstance(found, Undecidable):
            raise found
        return found

    @property
    def _in_time(self) -> Seen:
        return in_time(self._until)

    def _new(self, other: TensorGraph) -> tuple[list[int], list[int]]:
        """Returns the nodes of each graph whose values the other graph does not have. Raises Undecidable."""
        source = self.source(self.seed)
        if not source.fingerprints:
            source.fingerprints = evaluate_at(
                self.graph, self.seed, source.terms, self._in_time, traced=True
            ).fingerprints
        side = evaluate_at(other, self.seed, source.terms, self._in_time, traced=True)
        here, there = source.fingerprints, side.fingerprints
        return _find_absent(here, there), _find_absent(there, here)

    def _likely(
        self, other: TensorGraph, new: tuple[list[int], list[int]] | None, outputs: Sequence[int]
    ) -> Iterator[Sequence[Array]]:
        """Yields the inputs of `likely_inputs`; none if `new`, the result of `_new`, is None."""
        try:
            yield from () if new is None else likely_inputs(self.graph, other, *new, outputs, self.seed)
        except Undecidable:
            return


def in_time(until: float) -> Seen:
    """Returns a function that raises OutOfTime once the thread has used more than `until` seconds of a processor."""

    def check(t: Terms, n: int, v: Value) -> Value:
        if time.thread_time() > until:
            raise OutOfTime
        return v

    return check


def check_signatures(a: TensorGraph, b: TensorGraph) -> None:
    """Raises SignatureError if inputs or outputs differ in number or type."""
    for what, one, other in zip(("inputs", "outputs"), a.signature(), b.signature()):
        if one != other:
            shown = (", ".join(f"{t.dtype} {list(t.shape)}" for t in types) or "none" for types in (one, other))
            raise SignatureError(f"the {what} differ: {' against '.join(shown)}")


def _nothing(t: Terms, n: int, v: Value) -> Value:
    return v


def source_of(graph: TensorGraph, seed: int, seen: Seen = _nothing, *, by_tables: bool = False) -> Side:
    """Returns the evaluated graph that others are compared with.

    If equal roots have different intervals, it is evaluated twice, so that each root has what others will find for it.
    """
    side = evaluate_at(graph, seed, seen=seen, by_tables=by_tables)
    if not side.terms.known.is_ambiguous:
        return side
    return evaluate_at(graph, seed, side.terms, seen, teaches=True, by_tables=by_tables)


def evaluate_at(
    graph: TensorGraph,
    seed: int,
    source: Terms | None = None,
    seen: Seen = _nothing,
    *,
    traced: bool = False,
    teaches: bool = False,
    by_tables: bool = False,
) -> Side:
    """Returns the graph evaluated at the point of a seed.

    source, teaches: see `Terms`. seen: see `Seen`. traced: whether to keep fingerprints.
    by_tables: whether functions of two small values are tables (`pairs.py`). Raises Undecidable.
    """
    terms = Terms(Field(seed), source, teaches)
    terms.pairs = Pairs(terms.functions) if by_tables else None
    prints: dict[int, tuple[int, int]] = {}

    def trace(t: Terms, n: int, v: Value) -> Value:
        if graph.nodes[n].op != "const":
            prints[n] = t.field.fingerprint(t.lanes(v))
        return seen(t, n, v)

    values = evaluate(terms, graph, trace if traced else seen)
    return Side(terms, [terms.lanes(v) for v in values], prints)


def _find_absent(some: Mapping[int, tuple[int, int]], others: Mapping[int, tuple[int, int]]) -> list[int]:
    """Returns the nodes whose fingerprints are not among the others'."""
    known = set(others.values())
    return [n for n, f in some.items() if f not in known]


def _where(graph: TensorGraph, outputs: Sequence[int], new: Set[int]) -> tuple[Open, ...]:
    """Returns the first operators above some outputs whose values are new."""

    def above(n: int) -> list[int]:
        return [i for i in graph.nodes[n].inputs if i in new and graph.nodes[i].op != "const"]

    first = find_first([graph.outputs[k] for k in outputs], above)
    reasons = "it is not what the first graph's output is", "its values are none of the first graph's"
    return tuple(Open(describe(graph, n), n, reasons[n in new]) for n in first[:_NAMED])


def find_first(last: Iterable[int], above: Callable[[int], list[int]]) -> list[int]:
    """Returns, in ascending order, the numbers above the last ones, or among them, that have none above them."""
    found, seen, stack = [], set[int](), list(last)
    while stack:
        if (n := stack.pop()) not in seen:
            seen.add(n)
            before = above(n)
            stack += before
            found += [] if before else [n]
    return sorted(found)


def unequal(source: Side, side: Side) -> tuple[int, ...]:
    """Returns the numbers of the outputs that differ."""
    pairs = enumerate(zip(source.outputs, side.outputs, strict=True))
    return tuple(k for k, (x, y) in pairs if not np.array_equal(x, y))


def _overflowing(graph: TensorGraph, source: Terms, other: Terms) -> tuple[Open, ...]:
    """Returns the operators of the second graph that may overflow where the first does not."""
    reason = "it may overflow, or meet what TOSA leaves open, where the first graph does not"
    return tuple(Open(describe(graph, n), n, reason) for n in sorted(other.beyond(source))[:_NAMED])


def error_bound(source: Terms, other: Terms) -> float:
    """Returns log2 of a bound on the probability that equal lanes belong to different graphs."""
    elements = sum(t.elements + t.field.hashes for t in (source, other))
    # one more is zero, with which roots are compared
    return source.field.error_bound(max(source.degree, other.degree), elements + 1)


# Certificates: JSON records of a proof of two files, from which anybody can repeat the proof.

#: Format number of a certificate. Keys may be added without a new number.
FORMAT = 1


class CertificateError(InputError):
    """A certificate that cannot be checked; the message says why."""


def digest(data: bytes) -> str:
    """Returns the SHA-256 in hexadecimal, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def certificate(
    proof: Proof, files: tuple[Path, Path], data: tuple[bytes, bytes], place: Path, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the certificate of a proof of two files, to be written to `place`, from whose directory it names them.

    files, data: the paths and the bytes of the two files.
    """
    names = (os.path.relpath(f.resolve(), place.resolve().parent) for f in files)
    return {
        "certificate": FORMAT,
        "files": [{"name": n, "sha256": digest(d)} for n, d in zip(names, data)],
        "verdict": proof.verdict,
        "undecided": [asdict(u) for u in proof.undecided],
        "error_bound": proof.error_bound,
        "seeds": list(proof.seeds),
        "seconds": round(proof.seconds, 3),
        "versions": dict(versions),
    }


def files_of(written: Any, place: Path) -> tuple[Path, Path]:
    """Returns the two files of a certificate, after comparing their SHA-256 with it.

    written: the parsed certificate. place: its path.
    Raises CertificateError if it is none, proves nothing, or if a file is missing or changed.
    """
    try:
        known, verdict, entries = written["certificate"], written["verdict"], written["files"]
        named = [(place.parent / e["name"], e["sha256"]) for e in entries]
    except (KeyError, TypeError) as e:
        raise CertificateError(f"{place} is no certificate: write one with eqsat prove --certificate") from e
    if known != FORMAT or len(named) != 2:
        raise CertificateError(f"{place} is a certificate of format {known!s:.20}; this version reads {FORMAT}")
    if verdict != PROVED:
        raise CertificateError(f"{place} certifies nothing: its verdict is {verdict!r:.40}")
    for path, expected in named:
        try:
            if path.exists() and not path.is_file():
                raise CertificateError(f"{path}, which {place} is about, is no file")
            found = digest(path.read_bytes())
        except CertificateError:
            raise
        except (OSError, ValueError) as e:
            reason = getattr(e, "strerror", None) or e
            raise CertificateError(f"cannot read {path!s:.300}, which {place} is about: {reason}") from e
        if found != expected:
            raise CertificateError(
                f"{path} is not the file that {place} is about: its SHA-256 is {found}, not {expected!s:.64}"
            )
    return named[0][0], named[1][0]
