"""MATMUL: each rule fires on what it is for, is exact there, and leaves its near misses alone."""

from typing import Any

from hypothesis import strategies as st

from eqsat.options.spellings import for_target
from eqsat.rules import RULES
from eqsat.rules.matmul import ROWS
from eqsat.target import Target
from tests.rules import cases
from tests.rules.checks import check
from tests.term import Term, graph


def product(x: Term, y: Term) -> Any:
    return x.matmul(y, -3, 5)


def constant(x: Term, columns: int) -> Any:
    """A matrix by which x can be multiplied."""
    return x.const(cases.randoms((x.shape[0], x.shape[2], columns)))


def reordered(x: Term, split: Any, perm: Any) -> Any:
    """View as `split`, transpose, view back."""
    return x.reshape(*split).transpose(*perm).reshape(*x.shape)


def scaled(x: Term, y: Term, *zero_points: int) -> Any:
    return x.matmul(y, *zero_points).rescale("INT8", 1 << 30, 38, out_zp=-7)


def of_int16(x: Term, y: Term) -> Any:
    return x("matmul", y, in_zp=(0,), w_zp=(0,)).rescale("INT16", 1 << 14, 30, scale32=False)


def steps(frozen) -> set[int]:
    """How many rows are added up at once."""
    return {dict(e.attrs)["step"] for nodes in frozen.classes for e in nodes if e.op == "matmul_rows"}


TABLE = """
matmul-transpose move-identity  INT8[n,h,c] INT8[n,c,w]  product(x, y)
matmul-transpose move-identity  INT8[n,h,c]      product(x, constant(x, w))

# a reordering inside n, rows, columns or the summed axis crosses
pull-roles-2-0     INT8[4,3,2] INT8[4,2,2]       product(reordered(x, (2, 2, 3, 2), (1, 0, 2, 3)), y)
pull-roles-2-1     INT8[4,3,2] INT8[4,2,2]       product(x, reordered(y, (2, 2, 2, 2), (1, 0, 2, 3)))
push-roles-2       INT8[4,3,2] INT8[4,2,2]       reordered(product(x, y), (2, 2, 3, 2), (1, 0, 2, 3))
pull-roles-2-0     INT8[2,6,3] INT8[2,3,2]       product(reordered(x, (2, 2, 3, 3), (0, 2, 1, 3)), y)
pull-roles-2-0     INT8[2,3,6] INT8[2,6,2]       product(reordered(x, (2, 3, 2, 3), (0, 1, 3, 2)), y)
pull-roles-2-1     INT8[2,3,6] INT8[2,6,2]       product(x, reordered(y, (2, 3, 2, 2), (0, 2, 1, 3)))
pull-roles-2-1     INT8[1,3,2] INT8[1,2,6]       product(x, reordered(y, (1, 2, 3, 2), (0, 1, 3, 2)))
push-roles-2       INT8[2,6,1] INT8[2,1,4]       reordered(product(x, y), (2, 3, 2, 4), (0, 2, 1, 3))
push-roles-2       INT8[2,3,1] INT8[2,1,6]       reordered(product(x, y), (2, 3, 2, 3), (0, 1, 3, 2))
# a movement between axes does not
- {crossing}       INT8[4,4,4] INT8[4,4,4]       product(x.transpose(1, 0, 2), y)
- {crossing}       INT8[4,4,4] INT8[4,4,4]       product(x, y.transpose(1, 0, 2))
- {crossing}       INT8[4,4,4] INT8[4,4,4]       product(x, y).transpose(1, 0, 2)

slice-roles-2      INT8[n,h,c] INT8[n,c,w]       cut(product(x, y))
matmul-conv        INT8[1,3,4]                   product(x, constant(x, 2))
matmul-conv        INT8[1,1,2]                   product(x, constant(x, 5))
matmul-conv        INT8[1,4,1]                   product(x, constant(x, 1))
- matmul-conv      INT8[2,3,4]                   product(x, constant(x, 2))       # several batches
- matmul-conv      INT8[1,3,4] INT8[1,4,2]       product(x, y)                    # variables

matmul-rows move-identity  INT8[n,h,c] INT8[n,c,w]  scaled(x, y, *zero_points)
matmul-rows        INT8[2,64,3] INT8[2,3,40]     scaled(x, y, -3, 5)  steps(frozen) == {1, 6}  # a row: 2*40*16 INT16
matmul-rows        INT8[8,20,1] INT8[8,1,160]    scaled(x, y, -3, 5)
- matmul-rows      INT8[8,20,1] INT8[8,1,160]    scaled(x, y, -128, 8)            # sums wait for a correction
- matmul-rows      INT8[1,257,2] INT8[1,2,3]     scaled(x, y, -3, 5)
- matmul-rows      INT8[16,2,16] INT8[16,16,193]  scaled(x, y, -3, 5)
- matmul-rows      INT16[1,2,2] INT16[1,2,3]     of_int16(x, y)
- matmul-rows      INT8[1,2,3] INT8[1,3,4]       product(x, y)                    # no RESCALE
"""
few = st.integers(1, 4)
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(),
    TABLE,
    beside="move-move",
    fires_on=25,
    crossing=["pull-roles-2-0", "pull-roles-2-1", "push-roles-2"],
    zero_points=st.sampled_from([(-3, 5), (-128, 8), (127, -128), (0, 0)]),
    **dict.fromkeys("nhcw", few),
)


def test_rows_are_for_targets_whose_products_wait_outside():
    targets = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
    assert [t for t in targets if ROWS in for_target(RULES, Target.of(t))] == ["ethos-u65-256"]


def test_all_rules_on_a_small_attention():
    """softmax's maximum between two products, heads moved from columns to batches and back."""

    def heads(x: Term) -> Any:
        return x.reshape(3, 2, 2).transpose(1, 0, 2).reshape(2, 3, 2)

    def attention(q: Term, k: Term, v: Term) -> Any:
        scores = heads(q).matmul(heads(k).transpose(0, 2, 1), 1, 2).rescale("INT8", 1 << 30, 36)
        out = scores.max(scores.reduce("max", 2)).matmul(heads(v), 0, 4).rescale("INT8", 1 << 30, 36)
        return out.transpose(1, 0, 2).reshape(1, 3, 4)

    frozen = check(graph("q:INT8[1,3,4] k:INT8[1,3,4] v:INT8[1,3,4]", attention))
    assert frozen.saturation.stop == "saturated" and "matmul-transpose" in frozen.saturation.matches
