"""`NodeModel`: all of a cost model but the price of one unit, which makes this a whole model:

    class Mine(NodeModel):
        def cycles(self, unit: Unit) -> float:
            return unit.result.bytes

Movements are settled as the cheapest chain by the model's own prices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cost_models.cache import PriceCache
from cost_models.legality import legal
from cost_models.protocol import Fusion, Price, Unit
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.target.staging import reordering, ways, write_steps
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Attrs, DType, Steps, Type


class NodeModel:
    """A model that prices units one by one.

    pool : Vela workers, for models that measure
    cache: prices on disk, for models that measure
    """

    in_cycles: bool = True

    def __init__(self, target: Target, pool: Pool | None = None, cache: PriceCache | None = None):
        self.target, self.pool, self.cache = target, pool, cache

    def cycles(self, unit: Unit) -> float:
        """Returns the cost of a single legal op by itself, >= 0; inf if it may not be used."""
        raise NotImplementedError

    @classmethod
    def lacks_cycles(cls) -> bool:
        """Whether a class has not written `cycles`, which `price` calls unless that is written anew."""
        return cls.cycles is NodeModel.cycles and cls.price is NodeModel.price

    def fusion(self, reader: Unit, read: Unit, producers: Sequence[Unit]) -> Fusion | None:
        return None

    def price(self, units: Sequence[Unit]) -> list[Price]:
        settled: dict[tuple[Move, str], tuple[float, Steps]] = {}
        out = []
        for unit in units:
            if unit.move is None:
                cycles = self.cycles(unit) if legal(unit, self.target.family) else math.inf
                out.append(Price(cycles, unit.steps))
                continue
            key = (unit.move, unit.result.dtype)
            if key not in settled:
                settled[key] = self._settle(unit, unit.move)
            out.append(Price(*settled[key]))
        return out

    def _settle(self, unit: Unit, move: Move) -> tuple[float, Steps]:
        """Returns (cost, steps) of the cheapest way to write a movement.

        Candidates are chains of native transposes, and the one that Vela decomposes by itself.
        """
        sizes, perm = reordering(move)
        chains = [*ways(sizes, perm, DType.of(unit.result.dtype).size, self.target.family), ((sizes, perm),)]
        best: tuple[float, Steps] = math.inf, write_steps(move, chains[-1])
        for steps in dict.fromkeys(write_steps(move, c) for c in chains):
            if legal(Unit(steps, unit.operands, unit.result), self.target.family):
                cost = sum(self.cycles(step) for step in chain(steps, unit.operands[0]))
                best = min(best, (cost, steps), key=lambda b: (b[0], len(b[1])))
        return best


def chain(steps: Sequence[tuple[str, Attrs]], start: Type) -> list[Unit]:
    """Returns one unit per step of a chain that begins with a tensor of type `start`."""
    out = []
    for op, attrs in steps:
        result = infer(op, attrs, [start])
        out.append(Unit(((op, attrs),), (start,), result))
        start = result
    return out
