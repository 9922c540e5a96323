"""Proofs that a command stream computes what its graph does, for every input.

The commands must also keep the rules of the hardware that results do not show (`eqsat/device/run.py`).
The graph and the commands are evaluated at the same random point (`prove.py`).
Commands are executed as by the functional model, on terms in place of numbers (`binary_machine.py`).
They make terms as the graph's operators do, so that equal values have equal terms.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsat.device.binary import READ_ONLY, Binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Element, Stop, Wait
from eqsat.device.run import UNKNOWN, check_commands
from eqsat.device.text import line
from eqsat.proof.binary_machine import TermMachine
from eqsat.proof.binary_memory import DTYPES
from eqsat.proof.evaluation import variable
from eqsat.proof.field import Field, Words, words
from eqsat.proof.prove import (
    LARGEST_ERROR,
    PROVED,
    UNDECIDED,
    Open,
    Proof,
    Prover,
    Side,
    error_bound,
    evaluate_at,
    find_first,
    in_time,
    source_of,
    unequal,
)
from eqsat.proof.steps import OutOfTime, Undecidable
from eqsat.proof.values import Terms, Value
from eqsat.tensor.graph import TensorGraph, find_unread
from eqsat.tensor.types import DType

#: Commands that an undecided proof names, at most.
_NAMED = 4


class EndedError(Exception):
    """A command, or the whole binary (offset -1), that has no term."""

    def __init__(self, operator: str, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.open = Open(operator, offset, reason)


def prove_binary(graph: TensorGraph, binary: Binary, *, prover: Prover | None = None, until: float = math.inf) -> Proof:
    """Returns the proof that a binary computes what a graph does, for every input.

    The verdict is "proved" or "undecided", never "different".
    Each of `undecided` describes a command; its `node` is its offset in the stream, in bytes (-1: the whole binary).
    prover: of another graph, with which the binary is then compared; commands whose values differ are not looked for.
    until: processor time of the calling thread at which the proof ends as undecided, checked between commands.
    """
    began = time.perf_counter()
    first = prover.seed if prover else secrets.randbits(63)
    seeds, bound = [first], 0.0
    found = None
    while found is None:
        try:
            seed = seeds[-1]
            source = prover.source(seed, until=until) if prover else source_of(graph, seed, in_time(until))
            terms, inputs = _inputs(graph, source)
            run = BinaryRun(graph, binary, terms, inputs, until=until)
            side = run.side()
            if wrong := unequal(source, side):
                found = Proof(UNDECIDED, () if prover else _where(graph, binary, source, wrong, until), outputs=wrong)
            elif beyond := run.overflowing(source.terms):
                found = Proof(UNDECIDED, beyond)
            elif (bound := bound + error_bound(source.terms, terms)) < LARGEST_ERROR:
                found = Proof(PROVED, error_bound=2.0**bound)
            else:
                seeds.append((seeds[-1] * 2 + 1) % (1 << 63))
        except EndedError as e:
            found = Proof(UNDECIDED, (e.open,))
        except Undecidable as e:
            found = Proof(UNDECIDED, (Open(str(e), -1, e.reason),))
    return replace(found, seeds=tuple(seeds), seconds=time.perf_counter() - began)


def _inputs(graph: TensorGraph, source: Side) -> tuple[Terms, list[Value]]:
    """Returns new terms to compare with the graph's, and the graph's inputs as such terms."""
    terms = Terms(Field(source.terms.field.seed), source.terms)
    return terms, [variable(terms, k, graph.type(n)) for k, n in enumerate(graph.inputs)]


class BinaryRun:
    """A binary of a graph, executed on terms of its inputs.

    known: words of all values of the graph, in order; if given, two attributes are filled.
    until: see `prove_binary`.
    new: numbers of the commands whose results the graph does not have.
    above: {command: the commands whose results it has read}, with -1 - k for output k.
    Raises EndedError.
    """

    def __init__(
        self,
        graph: TensorGraph,
        binary: Binary,
        terms: Terms,
        inputs: Sequence[Value],
        known: Words | None = None,
        until: float = math.inf,
    ) -> None:
        self._graph, self._binary, self._known, self._until = graph, binary, known, until
        self._terms, self._inputs = terms, inputs
        self.new, self.above = set[int](), dict[int, set[int]]()
        try:
            self.commands: list[Any] = binary.commands()
            check_commands(self.commands, binary.config)
        except UNKNOWN as e:
            raise EndedError("its command stream", getattr(e, "offset", -1), str(e)) from e

    def outputs(self) -> list[Value]:
        """Executes the commands and returns the terms of all outputs. Raises EndedError."""
        b = self._binary
        self._memory = memory = self._fill_memory()
        execution = b.config.commands.execution(b.config.core, memory)
        for k, c in enumerate(self.commands):
            memory.writer, memory.sources, self._terms.node = k, set(), k
            if time.thread_time() > self._until:
                raise EndedError(line(c), c.offset, OutOfTime.reason)
            try:
                self._note(k, None if isinstance(c, Wait | Stop) else execution.step(c))
            except (Undecidable, *UNKNOWN) as e:
                text = str(e) if isinstance(e, Undecidable | DeviceError) else f"{type(e).__name__}: {e}"
                raise EndedError(line(c), c.offset, text) from e
        memory.sources = set()
        try:
            return [self._output(k) for k in range(len(b.outputs))]
        except (Undecidable, DeviceError) as e:
            raise EndedError("its outputs", -1, str(e)) from e

    def side(self) -> Side:
        """Returns the outputs as points of the fields. Raises EndedError."""
        return Side(self._terms, [self._terms.lanes(v) for v in self.outputs()])

    def _fill_memory(self) -> TermMachine:
        """Returns memory that holds the constants and inputs. Raises EndedError."""
        b, graph, t = self._binary, self._graph, self._terms
        lost = find_unread(graph)  # Vela drops these inputs
        given = [k for k in range(len(graph.inputs)) if k not in lost]
        if len(given) != len(b.inputs) or len(graph.outputs) != len(b.outputs):
            counts = f"{len(b.inputs)} inputs and {len(b.outputs)} outputs"
            raise EndedError("the binary", -1, f"it has {counts} for {len(given)} and {len(graph.outputs)}")
        try:
            memory = TermMachine(t, b.regions, b.config.internal)
            memory.fill(READ_ONLY, b.read_only)
            for k, tensor in zip(given, b.inputs, strict=True):
                kind = graph.type(graph.inputs[k])
                size = DType.of(kind.dtype).size
                if not DType.of(kind.dtype).is_integral or (kind.elements, size) != (
                    tensor.bytes // tensor.element,
                    tensor.element,
                ):
                    raise Undecidable(f"input {k} is {kind.dtype} {list(kind.shape)}")
                places = tensor.address + size * np.arange(kind.elements)
                memory.write_at(tensor.region, places, Element(True, 8 * size), self._inputs[k])
        except (Undecidable, DeviceError) as e:
            raise EndedError("its memory", -1, str(e)) from e
        return memory

    def _output(self, k: int) -> Value:
        tensor, kind = self._binary.outputs[k], self._graph.type(self._graph.outputs[k])
        size = DType.of(kind.dtype).size
        if (kind.elements, size) != (tensor.bytes // tensor.element, tensor.element) or size not in DTYPES:
            raise Undecidable(f"output {k} is {kind.dtype} {list(kind.shape)}")
        places = tensor.address + size * np.arange(kind.elements)
        v = self._memory.read_at(tensor.region, places, Element(True, 8 * size))
        self.above[-1 - k] = self._memory.sources
        self._memory.sources = set()
        return v

    def _note(self, k: int, v: Value | None) -> None:
        if self._known is None:
            return
        self.above[k] = self._memory.sources
        if (
            v is not None
            and not _among(words(self._terms.lanes(v))[0], self._known)
            or v is None
            and any(s in self.new for s in self._memory.sources)
        ):
            self.new.add(k)

    def overflowing(self, source: Terms) -> tuple[Open, ...]:
        """Returns the commands that may overflow where the graph, whose terms are `source`, does not."""
        return self.list_open(self._terms.beyond(source), "it may overflow where the graph does not")

    def list_open(self, numbers: Iterable[int], reason: str) -> tuple[Open, ...]:
        """Returns the first of these commands, and why they are undecided."""
        first = [self.commands[k] for k in sorted(numbers)[:_NAMED]]
        return tuple(Open(line(c), c.offset, reason) for c in first)


def _among(some: Words, known: Words) -> bool:
    """Whether all words are among the known ones, which are in ascending order."""
    at = np.minimum(np.searchsorted(known, some), len(known) - 1)
    return bool((known[at] == some).all())


def _where(
    graph: TensorGraph, binary: Binary, source: Side, outputs: tuple[int, ...], until: float
) -> tuple[Open, ...]:
    """Returns the first commands whose values the graph does not have."""
    known: list[Words] = []
    check = in_time(until)

    def keep(t: Terms, n: int, v: Value) -> Value:
        check(t, n, v)
        known.append(np.unique(words(t.lanes(v))[0]))
        return v

    evaluate_at(graph, source.terms.field.seed, source.terms, keep)
    run = BinaryRun(graph, binary, *_inputs(graph, source), np.unique(np.concatenate(known)), until)
    run.side()

    def above(k: int) -> list[int]:
        return [s for s in run.above[k] if s in run.new]

    found = find_first([k for o in outputs for k in above(-1 - o)], above)
    if not found:
        return (Open("its outputs", -1, "their values are none of the graph's, or in another order"),)
    reason = "its values are none of the graph's"
    return run.list_open(found, reason)
