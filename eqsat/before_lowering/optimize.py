"""`eqsat.optimize`: a program before lowering, in and out.

>>> program, report = eqsat.optimize(exported_program, target="ethos-u85-256")
>>> edge = to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])

The program is lifted to the tensor language (`lift`), saturated with the same rules and extracted by the same
extractors as the graphs inside the lowering (`cost`), and written back (`emit`). Prices at this level are closed forms,
so the result is trusted only after a look at what becomes of it: by default both programs are lowered, and the new one
is returned only if it is not worse by stock ExecuTorch's lowering, nor by eqsat's
(`eqsat.to_edge_transform_and_lower`), and better by one of them, or as good with fewer operators.
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
#: A smaller share of the modelled cycles is within what closed forms cannot tell.
_LEAST_GAIN = 0.002


@dataclass(frozen=True, slots=True)
class Lowered:
    """What becomes of a program: cycles over all delegates by stock ExecuTorch's lowering and by eqsat's, each by
    Vela's own total and by the corrected one (None: no delegate, or one that failed), and the ops that stay outside the
    delegates."""

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
    """What `optimize` did. reason: why the program is as it was, "" if it changed.

    ops: FX op -> (before, after) for what differs in number, quantize and dequantize left out. modelled: estimated
    cycles of data movement and pointwise work (before, after). lowered: (before, after), if both were lowered.
    exact: outputs were compared to the bit, on `trials` inputs; largest_difference: 0 then. seconds: by stage.
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
        """How many ops of data movement are gone (below 0: there are more, smaller ones)."""
        return sum(b - a for b, a in self.ops.values())

    @contextmanager
    def stage(self, what: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started


class _SteppedBack(Exception):
    """The program stays as it was; the message says why. `expected`: nothing went wrong, there was nothing to gain."""

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
    """A program with less data movement, of the same kind and signature and with equal outputs, and a report.

    program: an ExportedProgram or an FX GraphModule at ATen or edge level with fixed shapes, quantized (PT2E) or float.
    It is not modified, and it is the result itself where there is nothing to gain, or with an EqsatWarning where
    something failed.
    target: an accelerator ("ethos-u85-256") or a compile spec. The result suits any partitioner: ops that no rule knows
    are kept.
    check: "lower" lowers both programs (seconds to minutes each) and returns the new one only if its cycles are not
    more by stock ExecuTorch nor by eqsat's own lowering, and fewer by one or at least its operators are fewer; "model"
    trusts closed forms of what data movement costs, in seconds.
    Float programs and others without an Ethos-U delegate have no cycles to compare; the model decides for them.
    trials: inputs (zeros, extremes, random) on which outputs must equal the original's, bit for bit where it is
    quantized, else within 1e-4 relative. options: as for `to_edge_transform_and_lower`.

    Raises TypeError for other kinds of programs, targets and options, OptionError for an unknown check, TargetError for
    an unknown target.
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
    except Exception as e:  # noqa: BLE001 - never worse: any failure but the user's own gives the program as it was
        if (mistake := plugin_error(e, options)) is not None:
            raise mistake from e
        report.reason = str(e) if isinstance(e, ProgramError) else f"{type(e).__name__}: {e}"
        report.warnings.append(report.reason)
    for w in report.warnings:
        warnings.warn(f"the program was left as it is: {w}", EqsatWarning, stacklevel=2)
    return program, report


class AtenPass:
    """`optimize` as a pass of an `executorch.export` recipe; the arguments are checked when it is made.

    >>> recipe.aten_transform_passes = [eqsat.AtenPass("ethos-u85-256")]

    `reports`: what it did, by method.
    """

    def __init__(
        self, target: str | EthosUCompileSpec, *, check: str = "lower", options: Options | None = None, trials: int = 6
    ) -> None:
        """As for `optimize`. Raises what that raises for bad arguments."""
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
    """The rewritten program, `report` filled in on the way. Raises _SteppedBack where the program is to stay as it
    was."""
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
    simpler = report.removed > 0 and after <= before  # also a view or a permute by the identity, which cost no cycles
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
            old, now = (lowered(p, spec, options, _example(source)) for p in (program, new))
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
    """Lowers a program for real, by stock ExecuTorch and by eqsat. `inputs` export a GraphModule. Raises what
    ExecuTorch raises."""
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


def _example(source: Source) -> tuple[torch.Tensor, ...]:
    return tuple(samples(source, 4)[3])


def _changed(source: Source, new: Program) -> dict[str, tuple[int, int]]:
    before, after = (
        Counter(name(n.target) for n in g.nodes if n.op == "call_function" and is_movement(n))
        for g in (source.graph, new.graph)
    )
    return {k: (before[k], after[k]) for k in sorted({*before, *after}) if before[k] != after[k]}
