"""The TOSA reference model in a worker process, and bit-for-bit comparisons of graphs on it."""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.ground.packed import unpack_arrays
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor.graph import TensorGraph, unpredictable
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Array, DType, GraphError
from eqsat.tosa.flatbuffer import dumps

# The reference model may crash or hang, so `reference` is called in a worker.


def pack(arrays: Iterable[Array]) -> bytes:
    """Returns arrays as one byte string."""
    out = io.BytesIO()
    np.savez(out, **{f"x{i}": x for i, x in enumerate(arrays)})
    return out.getvalue()


def unpack(data: bytes) -> list[Array]:
    """Returns the arrays that `pack` was given."""
    arrays = unpack_arrays(data)
    return [arrays[f"x{i}"] for i in range(len(arrays))]


def reference(buffer: bytes, samples: list[bytes]) -> list[bytes | str]:
    """Returns, per sample of packed inputs, the packed outputs or why the model refuses it. Raises ImportError."""
    try:
        import tosa_reference_model as model
    except ImportError as e:
        raise ImportError(f"{e}: pip install tosa-tools") from e

    answers: list[bytes | str] = []
    for inputs in samples:
        outputs, status = model.run(buffer, unpack(inputs), verbosity="NONE", initialize_variable_tensor_from_numpy=1)
        valid = status == model.GraphStatus.TOSA_VALID
        answers.append(pack(outputs) if valid else f"RuntimeError: the reference model answers {status}")
    return answers


#: Bytes of tensors that one request to a worker returns, about.
_MESSAGE = 1 << 26
#: Elements that a comparison computes in all tensors and samples, about, so that small graphs get more samples.
_ELEMENTS = 1 << 22
#: Samples per sample that was asked for, at most.
_MOST = 16
#: Crashes of the model per graph, at most; each restart takes a second.
_DEATHS = 12
#: Samples that are run at first.
_AT_FIRST = 2
#: Samples of constant inputs (lowest, highest), which are drawn first.
_CONSTANT = 2


def run_samples(
    buffer: bytes,
    inputs: Sequence[Sequence[Array]],
    via: Pool | Worker,
    timeout: float = 300.0,
    deaths: int = _DEATHS,
) -> list[list[Array] | WorkerError]:
    """Returns, per sample, the outputs of the TOSA reference model (`tosa-tools`) or why there are none.

    A sample on which the model crashes fails alone, until there were `deaths` crashes.
    timeout: seconds per request.
    Raises WorkerError if the model refuses the graph itself, or exceeds the timeout.
    """
    answers: list[list[Array] | WorkerError] = []
    parts = [inputs]
    while parts:
        part = parts.pop()
        try:
            found = via.call(reference, buffer, [pack(xs) for xs in part], limits=Limits(timeout))
            answers += [WorkerError(a, refused=True) if isinstance(a, str) else unpack(a) for a in found]
        except WorkerError as e:
            if e.refused or "took over" in str(e):
                raise
            deaths -= 1
            if len(part) == 1 or deaths <= 0:
                answers += [e] * len(part)
            else:
                parts += [part[len(part) // 2 :], part[: len(part) // 2]]
    return answers


class Unjudged(WorkerError):
    """The model refuses the reference or every sample, or does not show the outputs: there is nothing to compare on."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison.

    equal: to the bit. max_difference: the largest absolute difference.
    reason: what differs, "" if nothing does.
    judged: number of samples that were compared, 0 if the signatures differ.
    outputs: of the other graph on the samples, or why there are none; empty if the signatures differ.
    """

    equal: bool
    max_difference: float
    reason: str = ""
    judged: int = 0
    outputs: Sequence[list[Array] | WorkerError] = field(default=(), repr=False, compare=False)


class Reference:
    """A graph's outputs on samples, each computed when it is first needed, with which other graphs are compared.

    At first a few samples are run, since a graph that is proved equal is compared on few.
    Samples on which the model cannot run the graph itself are left out, such as those with overflowing additions or
    GATHERs out of range, whose results TOSA leaves undefined.
    The model does not show INT48 outputs; a graph that has some is compared by the op table's semantics instead.

    trials: samples of a large graph; smaller ones get more.
    Raises Unjudged if samples cannot be made, or the model runs on none of them.
    """

    def __init__(self, graph: TensorGraph, via: Pool | Worker, trials: int = 6, seed: int = 0) -> None:
        self.graph, self._via = graph, via
        _, self._results = graph.signature()
        live = graph.live()
        elements = sum(graph.type(n).elements for n in live)
        try:
            drawn = samples(domains(graph), max(trials, min(_MOST * trials, _ELEMENTS // elements)), seed)
        except GraphError as e:
            raise Unjudged(f"the reference model cannot be given these inputs: {e}") from e
        self._drawn = drawn
        self._answers: dict[int, list[Array] | WorkerError] = {}
        self._lock = threading.Lock()
        self.first(_AT_FIRST)

    def first(self, number: int | None = None) -> tuple[list[Sequence[Array]], list[list[Array]]]:
        """Returns the inputs and the outputs of `number` samples, or of all if there are fewer, or for None.

        The first two samples, of constant inputs, reveal less than the others, and come last.
        Outputs that the model does not show have another shape. Raises Unjudged.
        """
        order = [*range(_CONSTANT, len(self._drawn)), *range(min(_CONSTANT, len(self._drawn)))]
        number = len(order) if number is None else number
        with self._lock:
            while True:
                shown = [(self._drawn[k], a) for k in order if isinstance(a := self._answers.get(k), list)][:number]
                left = [k for k in order if k not in self._answers][: number - len(shown)]
                if not left:
                    break
                try:
                    answers = list(self._run(self.graph, [self._drawn[k] for k in left]))
                except WorkerError as e:
                    raise Unjudged(f"the reference model failed on the reference itself: {e}") from e
                self._answers |= zip(left, answers, strict=True)
        if not shown:
            refusal = next(str(a) for a in self._answers.values() if isinstance(a, WorkerError))
            tried = len(self._drawn)
            raise Unjudged(f"the reference model runs the reference on none of {tried} samples: {refusal}")
        return [x for x, _ in shown], [a for _, a in shown]

    def _run(
        self, graph: TensorGraph, drawn: Sequence[Sequence[Array]], deaths: int = _DEATHS
    ) -> Iterator[list[Array] | WorkerError]:
        """Returns a graph's outputs per sample, or an error."""
        workers = self._via.size if isinstance(self._via, Pool) else 1
        size = sum(graph.type(o).bytes for o in graph.outputs) + sum(x.nbytes for x in drawn[0])
        step = max(1, min(_MESSAGE // size, math.ceil(len(drawn) / workers)))
        buffer, parts = dumps(graph), [drawn[k : k + step] for k in range(0, len(drawn), step)]

        def run(part: Sequence[Sequence[Array]]) -> list[list[Array] | WorkerError]:
            return run_samples(buffer, part, self._via, deaths=deaths)

        answers = self._via.map(run, parts) if isinstance(self._via, Pool) else map(run, parts)
        return (answer for part in answers for answer in part)

    def compare(self, other: TensorGraph, number: int | None = None) -> Comparison:
        """Compares every output of `other` to the bit.

        number: of samples, those of `first`; None: all.
        Raises WorkerError if the model fails on `other` for a sample of the reference, and Unjudged if TOSA leaves all
        samples open, or neither the model nor numpy shows an output.
        """
        graph = self.graph
        if graph.signature() != other.signature():
            return Comparison(False, math.inf, f"signatures differ: {graph.signature()} and {other.signature()}")
        names = [[g.nodes[i].attr("name") for i in g.inputs] for g in (graph, other)]
        if names[0] != names[1]:
            return Comparison(False, math.inf, f"inputs differ: {names[0]} and {names[1]}")
        inputs, outputs = self.first(number)
        answers = list(self._run(other, inputs, deaths=1))
        difference, hidden, judged = self._judge(zip(inputs, outputs, answers, strict=True))
        if not judged:
            raise Unjudged(f"TOSA leaves open what the reference gives on all of {len(inputs)} samples")
        if hidden and not difference.where:
            try:
                self._in_numpy(other, inputs, difference)
            except GraphError as e:
                raise Unjudged(
                    f"the reference model does not show output {min(hidden)} of {self._results[min(hidden)].dtype}: {e}"
                ) from e
        return Comparison(not difference.where, difference.worst, difference.where, judged, answers)

    def _judge(
        self, samples: Iterable[tuple[Sequence[Array], list[Array], list[Array] | WorkerError]]
    ) -> tuple[_Difference, set[int], int]:
        """Returns the difference, the outputs that are not shown, and the number of samples that count.

        samples: inputs, this graph's outputs and the other's.
        A sample on which the graphs differ is not counted if TOSA leaves its result undefined.
        """
        difference, hidden, judged = _Difference(), set[int](), 0
        for inputs, want, got in samples:
            if isinstance(got, WorkerError):
                if not unpredictable(self.graph, inputs):
                    raise got
                continue
            here = _Difference()
            for slot, (x, y, t) in enumerate(zip(want, got, self._results, strict=True)):
                if x.shape == y.shape == t.shape:
                    here.add(x, y, f"output {slot}", t.dtype)
                else:
                    hidden.add(slot)
            if not here.where or difference.where or not unpredictable(self.graph, inputs):
                difference, judged = max(difference, here, key=lambda d: d.worst), judged + 1
        return difference, hidden, judged

    def _in_numpy(self, other: TensorGraph, samples: Sequence[Sequence[Array]], difference: _Difference) -> None:
        """Adds the difference of all outputs by the op table's semantics. Raises GraphError."""
        for inputs in samples:
            for slot, (x, y) in enumerate(zip(self.graph.evaluate(inputs), other.evaluate(inputs), strict=True)):
                difference.add(x, y, f"output {slot}")


@dataclass(slots=True)
class _Difference:
    """The largest absolute difference so far, and where it is."""

    worst: float = 0.0
    where: str = ""

    def add(self, want: Array, got: Array, what: str, dtype: str = "") -> None:
        """Adds a difference of `what`. dtype: of an output; the text of an activation's difference has its range."""
        if np.array_equal(want, got, equal_nan=want.dtype.kind == "f"):
            return
        difference = float(np.abs(want.astype(np.float64) - got.astype(np.float64)).max())
        if difference >= self.worst:
            steps = f" of {np.ptp(DType.of(dtype).limits)} steps" if dtype and DType.of(dtype).is_activation else ""
            self.worst, self.where = difference, f"{what} differs by up to {difference:g}{steps}"


def compare(a: TensorGraph, b: TensorGraph, via: Pool | Worker, trials: int = 6, seed: int = 0) -> Comparison:
    """Compares b with a, see `Reference`. Raises WorkerError."""
    return Reference(a, via, trials, seed).compare(b)
