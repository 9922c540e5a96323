"""A cost model without Vela: bytes read and written. It makes extraction quick; what it ranks wrongly costs cycles,
never results."""

from __future__ import annotations

import math

import numpy as np

from cost_models.bytes_moved import BytesMoved
from cost_models.legality import legal
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.target.staging import reordering, ways, written
from eqsat.tensor.dtypes import DType
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Steps

#: Beyond this the search for chains of native transposes takes longer than the rest of a trial.
_MOST_ATOMS = 4


class Bytes(BytesMoved):
    """Movements go one of the ways that `eqsat/target/staging.py` knows, drawn at random, so that each gets tested."""

    def __init__(self, target: Target, rng: np.random.Generator):
        super().__init__(target)
        self.rng = rng

    def _settle(self, u: Unit, move: Move) -> tuple[float, Steps]:
        sizes, perm = reordering(move)
        chains = (
            ways(sizes, perm, DType.of(u.result.dtype).size, self.target.family)
            if len(sizes) <= _MOST_ATOMS
            else [((sizes, perm),)]
        )
        options = [
            steps
            for steps in (written(move, c) for c in chains)
            if legal(Unit(steps, u.operands, u.result), self.target.family)
        ]
        if not options:
            return math.inf, ()
        return float(2 * u.result.bytes * len(options)), options[int(self.rng.integers(len(options)))]
