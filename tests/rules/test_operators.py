"""Another operator for the same integers: sums in one step, planes by a convolution, ARGMAX along a better axis."""

from hypothesis import strategies as st

from tests.rules import cases

sizes = st.lists(st.integers(2, 4), min_size=2, max_size=4)
LAST = (0, 2, 3, 1)
TABLE = """
reduce-reduce       INT32[2,3,4,2]      x.reduce('sum', axes[0]).reduce('sum', axes[1])
reduce-reduce       INT8[2,3,4,2]       x.reduce(kind, axes[0]).reduce(kind, axes[1])
- reduce-reduce     INT8[2,3,4,2]       x.reduce('max', 1).reduce('max', 3)                # apart
- reduce-reduce     INT8[2,3,4,2]       x.reduce('max', 2).reduce('max', 2)
- reduce-reduce     INT8[2,3,4,2]       x.reduce('max', 1).reduce('min', 2)                # of two kinds

planes-conv         d[1,3,4,6] | d[1,2,5,2] | d[1,8,4,4] | d[1,3,1,50]  x.transpose(*LAST)
planes-conv         d[3,32]             x.transpose(1, 0)
- planes-conv       INT8[1,9,4,4]       x.transpose(*LAST)                                 # many planes
- planes-conv       INT32[1,3,4,6]      x.transpose(*LAST)
- planes-conv       INT8[1,3,4,6]       x.transpose(0, 2, 1, 3)
- planes-conv       INT8[1,3,1,17]      x.transpose(*LAST)                                 # prime rows

widening-product    INT16[1,4,3,5] | INT16[6] | INT16[2,3]  x.rescale('INT32', *by)  ops == {'rescale', 'mul'}
- widening-product  INT16[1,4,3,5] | INT16[6] | INT16[2,3]  x.rescale('INT32', 32767, 2)   # no integer
- widening-product  INT16[2,5]          x.rescale('INT32', (1 << 30) + 1, 19)              # no integer
- widening-product  INT16[2,5]          x.rescale('INT32', 1 << 30, 15)                    # 32768 is no INT16
- widening-product  INT16[2,5]          x.rescale('INT32')                                 # by one
- widening-product  INT8[2,5]           x.rescale('INT32', 1 << 30, 26)
- widening-product  INT16[2,5]          x.rescale('INT32', [1 << 30] * 5, [19] * 5)
- widening-product  INT16[2,5]          x.rescale('INT32', 1 << 30, 19, input_unsigned=True)
- widening-product  INT16[2,5]          x.rescale('INT16', 1 << 30, 29)

pool-separable      INT8[2,12,12,3]     x.largest(5, 5, pad=(2, 2, 2, 2))  matches == 1 and e_nodes == 4
pool-separable      INT8[2,12,12,3]     x.largest(9, 5, stride=(1, 2), pad=(4, 4, 2, 1))  matches == 1 and e_nodes == 4
- pool-separable    INT8[2,12,12,3]     x.largest(3, 3)                                    # small
- pool-separable    INT8[2,12,12,3]     x.largest(1, 9)                                    # flat
- pool-separable    INT8[2,12,12,3]     x.largest(6, 6, stride=(6, 6))
- pool-separable    INT8[2,12,12,3]     x.largest(12, 12)

argmax-outward      INT32[sizes]        x.min(1).argmax(len(x.shape) - 1)   # ties are common: the first counts
- argmax-outward    INT8[2,3,4]         x.argmax(1)                                        # it is outside already
- argmax-outward    INT8[5]             x.argmax()                                         # or alone
- argmax-outward    INT8[3,1]           x.argmax(1)
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(),
    TABLE,
    beside="move-move move-identity",
    fires_on=6,
    spares=3,
    axes=[(1, 2), (2, 1), (0, 1), (2, 3)],
    by=[(1 << 30, 19), (1 << 30, 29), (3 << 20, 20), (1 << 30, 16)],
    d=["INT8", "INT16"],
    kind=["max", "min"],
)
