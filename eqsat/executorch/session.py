"""What a door knows: the options that it was given, and what became of each delegate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat.executorch.logs import speak
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures
from eqsat.search.interruption import Interruption
from eqsat.search.optimizer import Result
from eqsat.target import Target


class EqsatWarning(UserWarning):
    """eqsat stepped back and the stock result was used, or there was nothing to optimize; the message says why."""


@dataclass(slots=True)
class Delegate:
    """A delegate of a program. name: `method/index`, as "forward/0". result: None where eqsat stepped back, and error
    says why."""

    name: str
    result: Result | None = None
    error: str = ""

    @property
    def stock_sram(self) -> int:
        """Bytes of SRAM that stock's graph takes, as far as that is known."""
        return (self.result and self.result.figures["stock"].sram) or 0

    def __str__(self) -> str:
        """Its name, corrected cycles before and after, how it is known to be equal, and what there is to know: why
        nothing was gained, what more memory would gain."""
        r = self.result
        if r is None:
            return f"{self.name}: stock ExecuTorch's, eqsat stepped back: {self.error}"
        stock = r.stock_corrected
        change = f" ({r.corrected / stock - 1:+.1%})" if stock and stock != r.corrected else ""
        before = "-" if stock is None else f"{stock:,}"
        more = [self._equality(r), r.kept, f"with more memory: {r.passed_over}" if r.passed_over else ""]
        return "; ".join([f"{self.name}: {before} -> {r.corrected:,} cycles{change}", *filter(None, more)])

    @staticmethod
    def _equality(result: Result) -> str:
        """How far a result equals its input."""
        if result.binary_verified is False or not (result.verified or result.deviation):
            return "not verified"
        if result.deviation:
            return "within the tolerance"
        return "bit-exact, proved" if result.proved else "bit-exact on samples"


@dataclass(slots=True, weakref_slot=True)
class Session:
    """Options and results of one door, per delegate in the order of lowering. programs: how many were partitioned;
    seconds: by stage; events: what debug.json has, where the compile spec asks for it; interruption: what ends its
    searches early."""

    options: Options
    delegates: list[Delegate] = field(default_factory=list)
    programs: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list, repr=False)
    interruption: Interruption = field(default_factory=Interruption, repr=False)

    def __post_init__(self) -> None:
        """Raises InputError where `EQSAT_LOG` cannot be followed."""
        speak()

    def add_seconds(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @property
    def results(self) -> list[Result]:
        """Of the delegates that have one."""
        return [d.result for d in self.delegates if d.result is not None]

    @property
    def stepped_back(self) -> int:
        """How many delegates are stock's because eqsat failed."""
        return len(self.delegates) - len(self.results)

    @property
    def complete(self) -> bool:
        """True if there are delegates and eqsat has a result for each."""
        return bool(self.delegates) and not self.stepped_back

    def figures(self, side: str) -> GraphFigures:
        """Those of a side, "stock" or "eqsat", over all delegates."""
        return GraphFigures.together([r.figures[side] for r in self.results], self.complete)

    @property
    def cycles(self) -> int | None:
        """Vela's cycles over all delegates as chosen, None if they are not complete."""
        return self.figures("eqsat").cycles

    @property
    def stock_cycles(self) -> int | None:
        """Vela's cycles over all delegates as stock ExecuTorch lowers them, None if one of those failed too."""
        return self.figures("stock").cycles

    @property
    def corrected(self) -> int | None:
        """As `cycles`, of the corrected totals."""
        return self.figures("eqsat").corrected

    @property
    def stock_corrected(self) -> int | None:
        """As `stock_cycles`, of the corrected totals."""
        return self.figures("stock").corrected

    def __str__(self) -> str:
        """A line per delegate."""
        return "\n".join(map(str, self.delegates)) or "no delegates"


def compile_spec_of(target: str | EthosUCompileSpec) -> EthosUCompileSpec:
    """The spec itself, or ExecuTorch's default one for an accelerator's name. Raises TargetError for an unknown name,
    TypeError for anything else."""
    if isinstance(target, str):
        Target.check_name(target)
        return EthosUCompileSpec(target.lower())
    if not isinstance(target, EthosUCompileSpec):
        raise TypeError(
            f"a target is an accelerator's name, such as 'ethos-u85-256', or an EthosUCompileSpec, not {type(target).__name__}"
        )
    Target.from_compile_spec(target)
    return target
