"""`eqsat.optimize`: rewrites a program before lowering.

>>> program, report = eqsat.optimize(exported_program, target="ethos-u85-256")
>>> edge = to_edge_transform_and_lower(program, partitioner=[EthosUPartitioner(spec)])

Prices at this level are closed forms, so by default both programs are lowered, by stock ExecuTorch and by eqsat.
"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import partial

from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule

from eqsat.before_lowering import fx
from eqsat.before_lowering.compare import compare
from eqsat.before_lowering.cost import cheapest
from eqsat.before_lowering.emit import emit
from eqsat.before_lowering.lift import Lifted, Program, ProgramError, read
from eqsat.executorch.lowering import lower_with_session
from eqsat.executorch.nodes import is_quantize, name, with_own_graph
from eqsat.executorch.partitioner import use_accepted_forms
from eqsat.executorch.session import EqsatWarning, Session, compile_spec_of
from eqsat.ground.files import PluginError
from eqsat.options.options import OptionError, Options, given_options
from eqsat.options.plugins import plugin_error
from eqsat.target import Target

CHECKS = ("lower", "model")
#: Least gain, as a share of the modelled cycles, that closed forms can tell.
_LEAST_GAIN = 0.002


@dataclass(slots=True)
class ProgramReport:
    """The report of `optimize`.

    reason: why the program was left as it was; "" if it changed.
    accepted: whether operators were given other forms, which Arm's partitioner accepts.
    ops: {FX op: (number before, after)} of data movements whose number changed.
    modelled: estimated cycles of data movement and pointwise work (before, after).
    lowered: the sessions of the lowerings (before, after), if both were lowered.
    exact: whether outputs were compared to the bit.
    trials: number of inputs.
    largest_difference: of the outputs, 0 if they are equal to the bit.
    seconds: wall-clock time by stage.
    """

    changed: bool = False
    reason: str = ""
    accepted: bool = False
    ops: dict[str, tuple[int, int]] = field(default_factory=dict)
    modelled: tuple[float, float] | None = None
    lowered: tuple[Session, Session] | None = None
    exact: bool = False
    trials: int = 0
    largest_difference: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def removed(self) -> int:
        """Number of data movements that were removed; below 0 if more were added."""
        return sum(b - a for b, a in self.ops.values())


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
    program: an ExportedProgram at ATen or edge level, or an FX GraphModule, which comes back at ATen level.
    It has fixed shapes, is quantized (PT2E) or float, and is not modified.
    target: an accelerator ("ethos-u85-256") or a compile spec; the result suits any partitioner.
    check: "lower" lowers both programs, which takes seconds to minutes each.
    The new one must not be worse by either lowering, and must be better by one or have fewer operators.
    "model" decides by closed forms of the cost of data movement, as it does for programs without a delegate.
    options: as for `to_edge_transform_and_lower`.
    trials: inputs (zeros, extremes, random) on which outputs must equal the original's.
    They are compared to the bit if it is quantized, else within 1e-4 relative.

    Raises TypeError for other kinds of programs, targets and options.
    Raises OptionError for an unknown check, TargetError for an unknown target.
    """
    _check(check)
    if not isinstance(program, (ExportedProgram, GraphModule)):
        raise TypeError(f"expected an ExportedProgram or an FX GraphModule, got {type(program).__name__}")
    spec, options, report = compile_spec_of(target), given_options(options), ProgramReport()
    try:
        new = _rewritten(program, spec, check, options, trials, report)
        if new is not None:
            report.changed = True
            return new.module() if isinstance(program, GraphModule) else new, report
    except PluginError:
        raise
    except Exception as e:  # noqa: BLE001 - never worse: any failure but the user's own leaves the program as it was
        if (mistake := plugin_error(e, options)) is not None:
            raise mistake from e
        report.reason = str(e) if isinstance(e, ProgramError) else f"{type(e).__name__}: {e}"
        report.warnings.append(report.reason)
        warnings.warn(f"the program was left as it is: {report.reason}", EqsatWarning, stacklevel=2)
    return program, report


class AtenPass:
    """`optimize` as a pass of an `executorch.export` recipe.

    >>> recipe.aten_transform_passes = [eqsat.AtenPass("ethos-u85-256")]

    reports: {method: report of `optimize`}.
    """

    def __init__(
        self, target: str | EthosUCompileSpec, *, check: str = "lower", options: Options | None = None, trials: int = 6
    ) -> None:
        """Checks the arguments, which are those of `optimize`. Raises what that raises for them."""
        _check(check)
        spec, options = compile_spec_of(target), given_options(options)
        self._call = partial(optimize, target=spec, check=check, options=options, trials=trials)
        self.reports: dict[str, ProgramReport] = {}

    def __call__(self, method: str, program: ExportedProgram) -> ExportedProgram:
        new, self.reports[method] = self._call(program)
        assert isinstance(new, ExportedProgram), "the result is of the same kind"
        return new


def _check(check: str) -> None:
    if check not in CHECKS:
        raise OptionError(f"no check is called {check!r}; there are {', '.join(CHECKS)}")


def _rewritten(
    program: Program, spec: EthosUCompileSpec, check: str, options: Options, trials: int, report: ProgramReport
) -> ExportedProgram | None:
    """Returns the rewritten program, or None if there is nothing to gain; fills in `report`.

    Raises ProgramError for a program that cannot be rewritten, and if the result is not equal.
    """
    stages = [("", time.perf_counter())]

    def done(stage: str) -> None:
        stages.append((stage, time.perf_counter()))
        report.seconds[stage] = stages[-1][1] - stages[-2][1]

    source = read(program)
    report.exact, report.trials = any(map(is_quantize, source.graph.nodes)), trials
    lifted = Lifted(with_own_graph(source))
    done("import")
    graph, after, before = cheapest(lifted.graph, Target.from_compile_spec(spec), options)
    report.modelled = before, after
    done("search")
    new = emit(lifted, graph)
    accepted = False
    if report.exact and source.dialect != "EDGE":
        names = [n.name for n in new.graph.nodes]
        new = use_accepted_forms(new, spec)  # last, as the search might undo it
        accepted = names != [n.name for n in new.graph.nodes]
    done("export")
    old_ops, new_ops = _movements(source.graph), _movements(new.graph)
    report.ops = {k: (old_ops[k], new_ops[k]) for k in sorted({*old_ops, *new_ops}) if old_ops[k] != new_ops[k]}
    # A program is also better without a view or a permute by the identity, which cost no cycles.
    better = accepted or report.removed > 0 and after <= before
    if not better and after >= before * (1 - _LEAST_GAIN):
        report.reason = "nothing to gain by the model"
        return None
    report.largest_difference = compare(source, new, trials, report.exact)
    done("verify")
    if check == "lower":
        report.lowered = _lowered(source, spec, options), _lowered(new, spec, options)
        done("lower")
        old, now = map(_figures, report.lowered)
        if any(b is not None and (a is None or a > b) for b, a in zip(old, now, strict=True)):
            report.reason = "lowered, the rewritten program is worse"
        elif old == now and not better and report.lowered[1].delegates:
            report.reason = "lowered, the rewritten program costs the same"
    if report.reason:
        return None
    report.accepted = accepted
    return new


def _lowered(program: ExportedProgram, spec: EthosUCompileSpec, options: Options) -> Session:
    """Returns the session of a lowering by eqsat, which has stock's figures, too. Raises what ExecuTorch raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lower_with_session(program, spec, options=options)[1]


def _figures(session: Session) -> list[int | None]:
    """Returns what must not grow: calibrated and Vela's cycles, stock's and eqsat's, and operators without delegate."""
    cycles = [session.stock_calibrated, session.calibrated, session.stock_cycles, session.cycles]
    return [*cycles, sum(o.number for o in session.left)]


def _movements(graph: Graph) -> Counter[str]:
    """Returns the number of data movements by op."""
    return Counter(name(n.target) for n in graph.nodes if fx.is_movement(n))
