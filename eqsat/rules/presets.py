"""Named sets of rules. `all` is the default."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.egraph.engine import Rule
from eqsat.rules import RULES

PRESETS: Mapping[str, Sequence[Rule]] = {
    "all": tuple(RULES),
    "none": (),
}
