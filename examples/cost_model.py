r"""A cost model of your own: write `cycles`, get the tables.

To compare it with the default, on graphs that `eqsat bench` saved, and to use it:

    python -m benchmarks.ablation --tosa RUN/graphs --out compared \
        --cost-models vela_groups,examples/cost_model.py:Roofline
    eqsat optimize in.tosa -t ethos-u55-128 -o out.tosa --cost-model examples/cost_model.py:Roofline
"""

from cost_models import NodeModel, Unit


class Roofline(NodeModel):
    """The slower of multiplying and moving: 128 MACs and 8 bytes per cycle."""

    def cycles(self, unit: Unit) -> float:
        if unit.op == "reshape":
            return 0.0
        moved = sum(t.bytes for t in (*unit.operands, unit.result))
        macs = unit.result.elements
        if unit.op in ("conv2d", "depthwise_conv2d"):
            macs *= unit.operands[1].elements // unit.result.shape[-1]
        elif unit.op == "matmul":
            macs *= unit.operands[0].shape[-1]
        return max(macs / 128, moved / 8)
