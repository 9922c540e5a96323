"""`eqsat.optimize`: rewrites a program before lowering.

>>> program, report = eqsat.optimize(exported_program, target="ethos-u85-256")
>>> edge = to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])

The program is lifted to the tensor language (`lift`) and written back (`emit`).
Rules and extractors between them are those of graphs inside the lowering (`cost`).
Prices at this level are closed forms, so by default both programs are lowered.
The lowerings are stock ExecuTorch's and eqsat's (`eqsat.to_edge_transform_and_lower`).
The new program is returned only if it is not worse by either.
It must also be better by one of them, or as good with fewer operators.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch.export import ExportedProgram
from torch.fx import GraphModule

from eqsat.before_lowering.compare import compare, samples
from eqsat.before_lowering.cost import cheapest
from eqsat.before_lowering.emit import emit
from eqsat.before_lowering.lift import lift
from eqsat.before_lowering.movement import is_movement
from eqsat.before_lowering.program import Program, ProgramError, Source, read
from eqsat.before_lowering.vocabulary import is_quantize, name
from eqsat.executorch.lowering import cpu_operators, lower_with_session
from eqsat.executorch.session import EqsatWarning, compile_spec_of
from eqsat.ground.files import PluginError
from eqsat.options.options import OptionError, Options, given_options
from eqsat.options.plugins import plugin_error
from eqsat.target import Target

CHECKS = ("lower", "model")
#: Least gain, as a share of the modelled cycles, that closed forms can tell.
_LEAST_GAIN = 0.002


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program's cycles after lowering, over all delegates.

    stock, eqsat: by stock ExecuTorch's lowering and by eqsat's, by Vela's own total.
    stock_corrected, eqsat_corrected: by the corrected total.
    They are None if there is no delegate, or if one failed.
    outside: number of ops outside of the delegates.
    """

    stock: int | None
    eqsat: int | None
    stock_corrected: int | None
    eqsat_corrected: int | None
    outside: int

    @property
    def totals(self) -> tuple[int | None, ...]:
        return self.stock, self.eqsat, self.stock_corrected, self.eqsat_corrected

    def no_worse_than(self, other: Lowered) -> bool:
        return self.outside <= other.outside and all(
            b is None or a is not None and a <= b for a, b in zip(self.totals, other.totals)
        )


@dataclass(slots=True)
class ProgramReport:
    """The report of `optimize`.

    reason: why the program was left as it was; "" if it changed.
    ops: {FX op: (number before, after)} of data movements whose number changed.
    modelled: estimated cycles of data movement and pointwise work (before, after).
    lowered: (before, after), if both were lowered.
    exact: whether outputs were compared to the bit.
    trials: number of inputs.
    largest_difference: of the outputs, 0 if they are equal to the bit.
    seconds: wall-clock time by stage.
    """

    changed: bool = False
    reason: str = ""
    ops: dict[str, tuple[int, int]] = field(default_factory=dict)
    modelled: tuple[float, float] | None = None
    lowered: tuple[Lowered, Lowered] | None = None
    exact: bool = True
    trials: int = 0
    largest_difference: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def removed(self) -> int:
        """Number of data movement ops that were removed; below 0 if more were added."""
        return sum(b - a for b, a in self.ops.values())

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started


class _SteppedBack(Exception):
    """The program is left as it was; the message says why.

    expected: nothing failed, there was nothing to gain.
    """

    def __init__(self, reason: str, expected: bool = False):
        super().__init__(reason)
        self.expected = expected


def optimize(
    program: Program,
    *,
    target: str | EthosUCompileSpec,
    check: str = "lower",
    options: Options | None = None,
    trials: int = 6,
) -> tuple[Program, ProgramReport]:
    """Returns a program with less data movement and a report.

    The program has the same kind and signature, and equal outputs.
    It is the given one if there is nothing to gain, or, with an EqsatWarning, if something failed.
    program: an ExportedProgram or an FX GraphModule at ATen or edge level, with fixed shapes.
    It is quantized (PT2E) or float, and is not modified.
    target: an accelerator ("ethos-u85-256") or a compile spec.
    The result suits any partitioner, since ops that no rule knows are kept.
    check: "lower" lowers both programs, which takes seconds to minutes each.
    It returns the new program only if neither lowering takes more cycles.
    One of them must take fewer, or there must be fewer operators.
    "model" decides by closed forms of the cost of data movement, in seconds.
    Programs without an Ethos-U delegate, such as float ones, have no cycles; the model decides.
    options: as for `to_edge_transform_and_lower`.
    trials: inputs (zeros, extremes, random) on which outputs must equal the original's.
    They are compared to the bit if it is quantized, else within 1e-4 relative.

    Raises TypeError for other kinds of programs, targets and options.
    Raises OptionError for an unknown check, TargetError for an unknown target.
    """
    _check(check)
    if not isinstance(program, (ExportedProgram, GraphModule)):
        raise TypeError(f"expected an ExportedProgram or an FX GraphModule, got {type(program).__name__}")
    spec, options = compile_spec_of(target), given_options(options)
    report = ProgramReport(exact=False)
    try:
        return _optimized(program, spec, Target.from_compile_spec(spec), check, options, trials, report), report
    except _SteppedBack as e:
        report.reason = str(e)
        if not e.expected:
            report.warnings.append(report.reason)
    except PluginError:
        raise
    except Exception as e:  # noqa: BLE001 - never worse: any failure but the user's own leaves the program as it was
        if (mistake := plugin_error(e, options)) is not None:
            raise mistake from e
        report.reason = str(e) if isinstance(e, ProgramError) else f"{type(e).__name__}: {e}"
        report.warnings.append(report.reason)
    for w in report.warnings:
        warnings.warn(f"the program was left as it is: {w}", EqsatWarning, stacklevel=2)
    return program, report


class AtenPass:
    """`optimize` as a pass of an `executorch.export` recipe.

    >>> recipe.aten_transform_passes = [eqsat.AtenPass("ethos-u85-256")]

    The arguments are checked when it is made.
    reports: {method: report of `optimize`}.
    """

    def __init__(
        self, target: str | EthosUCompileSpec, *, check: str = "lower", options: Options | None = None, trials: int = 6
    ) -> None:
        """Checks the arguments, which are those of `optimize`.

        Raises what that raises for them.
        """
        _check(check)
        self._call = partial(
            optimize, target=compile_spec_of(target), check=check, options=given_options(options), trials=trials
        )
        self.reports: dict[str, ProgramReport] = {}

    def __call__(self, method: str, program: ExportedProgram) -> ExportedProgram:
        new, self.reports[method] = self._call(program)
        assert isinstance(new, ExportedProgram), "the result is of the same kind"
        return new


def _check(check: str) -> None:
    if check not in CHECKS:
        raise OptionError(f"no check is called {check!r}; there are {', '.join(CHECKS)}")


def _optimized(
    program: Program,
    spec: EthosUCompileSpec,
    target: Target,
    check: str,
    options: Options,
    trials: int,
    report: ProgramReport,
) -> Program:
    """Returns the rewritten program, and fills in `report`."""
    with report.stage("import"):
        source = read(program)
        lifted = lift(source)
    with report.stage("search"):
        graph, after, before = cheapest(lifted.graph, target, options)
    report.modelled = before, after
    gains = after < before * (1 - _LEAST_GAIN)
    with report.stage("export"):
        new = emit(lifted, graph)
    report.ops = _changed(source, new)
    # A program is also simpler without a view or a permute by the identity, which cost no cycles.
    simpler = report.removed > 0 and after <= before
    if not simpler and not gains:
        raise _SteppedBack("nothing to gain by the model", expected=True)
    with report.stage("verify"):
        report.exact, report.trials = any(is_quantize(n) for n in source.graph.nodes), trials
        outcome = compare(source, new, trials, report.exact)
        report.largest_difference = outcome.largest
    if not outcome.equal:
        raise _SteppedBack(f"the rewritten program is not equal: {outcome.reason}")
    if check == "lower":
        with report.stage("lower"):
            example = tuple(samples(source, 4)[3])
            old, now = (lowered(p, spec, options, example) for p in (program, new))
        report.lowered = old, now
        if not now.no_worse_than(old):
            raise _SteppedBack("lowered, the rewritten program is worse", expected=True)
        if old == now and not simpler and now.stock is not None:
            raise _SteppedBack("lowered, the rewritten program costs the same", expected=True)
    report.changed = True
    return new


def lowered(
    program: Program, spec: EthosUCompileSpec, options: Options, inputs: tuple[torch.Tensor, ...] = ()
) -> Lowered:
    """Returns what stock ExecuTorch's lowering and eqsat's make of a program.

    inputs: to export a GraphModule with.
    Raises what ExecuTorch raises.
    """
    if isinstance(program, GraphModule):
        program = torch.export.export(program, inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        edge, session = lower_with_session(program, spec, options=options)
    return Lowered(
        session.stock_cycles,
        session.cycles,
        session.stock_corrected,
        session.corrected,
        sum(cpu_operators(edge).values()),
    )


def _changed(source: Source, new: Program) -> dict[str, tuple[int, int]]:
    before, after = (
        Counter(name(n.target) for n in g.nodes if n.op == "call_function" and is_movement(n))
        for g in (source.graph, new.graph)
    )
    return {k: (before[k], after[k]) for k in sorted({*before, *after}) if before[k] != after[k]}
