"""A cost model without Vela: bytes read and written.

Extraction by it is quick. Wrong prices cost cycles, never correct results.
"""

from __future__ import annotations

import math

import numpy as np

from cost_models.bytes_moved import BytesMoved
from cost_models.legality import legal
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.target.staging import reordering, ways, write_steps
from eqsat.tensor.movement import Move
from eqsat.tensor.types import DType, Steps

#: Axes up to which chains of native transposes are searched; beyond, that dominates a trial.
_MOST_ATOMS = 4


class Bytes(BytesMoved):
    """Bytes moved, where each movement takes a random one of its ways (`eqsat/target/staging.py`).

    So each way is tested.
    """

    def __init__(self, target: Target, rng: np.random.Generator):
        super().__init__(target)
        self.rng = rng

    def _settle(self, u: Unit, move: Move) -> tuple[float, Steps]:
        sizes, perm = reordering(move)
        family, chains = self.target.family, [((sizes, perm),)]
        if len(sizes) <= _MOST_ATOMS:
            chains = ways(sizes, perm, DType.of(u.result.dtype).size, family)
        written = (write_steps(move, c) for c in chains)
        options = [steps for steps in written if legal(Unit(steps, u.operands, u.result), family)]
        if not options:
            return math.inf, ()
        return float(2 * u.result.bytes * len(options)), options[int(self.rng.integers(len(options)))]
