"""The session of one partitioner or one `enabled`: its options, and the result of each delegate."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.executorch.logs import speak
from eqsat.ground.table import as_html
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures, tables, verdict
from eqsat.search.interruption import Interruption
from eqsat.search.optimizer import Result
from eqsat.target import Target


class EqsatWarning(UserWarning):
    """eqsat fell back to the stock result, or had nothing to optimize; the message says why."""


@dataclass(slots=True)
class Delegate:
    """A delegate, `method/index`, with its result, or why eqsat fell back."""

    name: str
    result: Result | None = None
    error: str = ""

    @property
    def stock_sram(self) -> int:
        """Bytes of SRAM that stock's graph takes, 0 if unknown."""
        return (self.result and self.result.figures["stock"].sram) or 0

    def __str__(self) -> str:
        """Returns a line: cycles, memory, limits that are not met, why nothing was gained, and gains with more."""
        r = self.result
        if r is None:
            return f"{self.name}: stock ExecuTorch's, eqsat fell back: {self.error}"
        gains = r.stock_calibrated is not None and r.change is not None and r.change.value != 1
        change = f" ({r.change})" if gains else ""
        before = "-" if r.stock_calibrated is None else f"{r.stock_calibrated:,}"
        vela = f"by Vela {'-' if r.stock_cycles is None else f'{r.stock_cycles:,}'} -> {r.cycles:,}"
        offer = f"with more memory: {r.offer}" if r.offer else ""
        more = [vela, r.price_of_limits, self._equality(r), r.shortfall, r.kept, offer]
        return "; ".join([f"{self.name}: {before} -> {r.calibrated:,} cycles{change}", *filter(None, more)])

    @staticmethod
    def _equality(result: Result) -> str:
        """Returns how far a result equals its input, in words."""
        if result.binary_verified is False or not result.verified:
            return "not verified"
        return "bit-exact, proved" if result.proved else "bit-exact on samples"


@dataclass(frozen=True, slots=True)
class LeftOperator:
    """Operators of one name that the partitioner left outside the delegates.

    They run on the CPU, unless another partitioner takes them.
    reason: the partitioner's, "" if it gave none.
    remedy: what to write instead in the model, "" if none is known (`partitioner.py`).
    """

    name: str
    number: int
    reason: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        told = "; ".join(filter(None, (self.reason, self.remedy)))
        return f"{self.name} {self.number}" + (f" ({told})" if told else "")


@dataclass(slots=True, weakref_slot=True, repr=False, eq=False)
class Session:
    """Options and results, per delegate in the order of lowering.

    programs: how many programs were partitioned.
    left: the operators of these programs outside the delegates, by name, reason and remedy.
    seconds: wall-clock seconds by stage.
    events: the entries of debug.json if the compile spec asks for it.
    interruption: the request to end its searches early.
    """

    options: Options
    delegates: list[Delegate] = field(default_factory=list)
    programs: int = 0
    left: list[LeftOperator] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    events: list[dict[str, Any]] = field(default_factory=list, repr=False)
    interruption: Interruption = field(default_factory=Interruption, repr=False)

    def __post_init__(self) -> None:
        """Raises InputError if `EQSAT_LOG` has an unknown value."""
        speak()

    @property
    def results(self) -> list[Result]:
        """The results of the delegates that have one."""
        return [d.result for d in self.delegates if d.result is not None]

    @property
    def stepped_back(self) -> int:
        """The number of delegates that are stock's because eqsat failed."""
        return sum(bool(d.error) for d in self.delegates)

    @property
    def complete(self) -> bool:
        """Whether there are delegates and each of them has a result."""
        return bool(self.delegates) and len(self.results) == len(self.delegates)

    def figures(self, side: str) -> GraphFigures:
        """Returns the figures of one side, "stock" or "eqsat", over all delegates."""
        return GraphFigures.together([r.figures[side] for r in self.results], self.complete)

    @property
    def cycles(self) -> int | None:
        """Vela's cycles of all chosen delegates, None unless they are complete."""
        return self.figures("eqsat").cycles

    @property
    def stock_cycles(self) -> int | None:
        """Vela's cycles of all delegates of stock ExecuTorch, None if one of them is unknown."""
        return self.figures("stock").cycles

    @property
    def calibrated(self) -> int | None:
        """Calibrated cycles of all chosen delegates, None unless they are complete."""
        return self.figures("eqsat").calibrated

    @property
    def stock_calibrated(self) -> int | None:
        """Calibrated cycles of all delegates of stock ExecuTorch, None if one of them is unknown."""
        return self.figures("stock").calibrated

    def __repr__(self) -> str:
        before, after = (f"{c:,}" if c else "unknown" for c in (self.stock_calibrated, self.calibrated))
        left = sum(o.number for o in self.left)
        cycles = f"{before} -> {after} cycles"
        return f"<Session: {len(self.delegates)} delegate(s), {cycles}, {left} operator(s) left>"

    def __str__(self) -> str:
        """Returns a line per delegate, one on all of them, and one on the operators outside."""
        return "\n".join(self._lines())

    def _repr_html_(self) -> str:
        """Returns the tables of stock's and eqsat's figures and the lines as HTML, for notebooks."""
        return as_html(tables({side: self.figures(side) for side in ("stock", "eqsat")}), self._lines())

    def _lines(self) -> list[str]:
        out = [str(d) for d in self.delegates] or ["no delegates"]
        if len(out) > 1:
            out.append(f"together: {verdict(self.figures('stock'), self.figures('eqsat'))}")
        if self.left:
            out.append(f"left to the CPU: {', '.join(map(str, self.left))}")
        return out


def compile_spec_of(target: str | EthosUCompileSpec) -> EthosUCompileSpec:
    """Returns the spec, or ExecuTorch's default one for an accelerator's name. Raises TargetError and TypeError."""
    if isinstance(target, str):
        Target.check_name(target)
        return EthosUCompileSpec(target.lower())
    if not isinstance(target, EthosUCompileSpec):
        raise TypeError(
            "a target is an accelerator's name, such as 'ethos-u85-256', or an EthosUCompileSpec, not "
            f"{type(target).__name__}"
        )
    Target.from_compile_spec(target)
    return target
