"""FX -> TensorGraph -> FX: what is read is written back, equal to the bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from eqsat.before_lowering.compare import compare, run, samples
from eqsat.before_lowering.emit import emit
from eqsat.before_lowering.lift import Lifted, ProgramError, read
from eqsat.executorch.nodes import is_dequantize, is_quantize, name, qparams, with_own_graph
from tests.before_lowering.programs import program
from tests.networks import Network

#: Movement by every name that ATen has for it.
SPELLINGS = {
    "permute": lambda x: x.permute(0, -1, 1, 2),
    "transpose": lambda x: x.transpose(1, -1),
    "swapaxes": lambda x: torch.swapaxes(x, 1, 2),
    "movedim": lambda x: torch.movedim(x, (1, 2), (-1, 0)),
    "moveaxis": lambda x: torch.moveaxis(x, 1, -1),
    "view": lambda x: x.view(1, 2, 4, 6, 4),
    "reshape": lambda x: x.permute(0, 2, 3, 1).reshape(24, 8),
    "flatten": lambda x: torch.flatten(x, 1, 2),
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "slice": lambda x: x[:, -6:-1, 1:],
    "select": lambda x: x.select(2, -2),
    "narrow": lambda x: torch.narrow(x, 1, 2, 3),
    "split": lambda x: torch.split(x, 3, 1)[2],
    "split_with_sizes": lambda x: torch.split(x, [1, 5, 2], 1)[1],
    "chunk": lambda x: torch.chunk(x, 3, 1)[2],
    "unbind": lambda x: x.unbind(-1)[2],
    "cat": lambda x: torch.cat([x, x], -1),
    "stack": lambda x: torch.stack([x, x], 2),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2, 0, 3), value=-1.0),
    "expand": lambda x: x[:, :1].expand(2, 8, -1, -1),
    "repeat": lambda x: x.repeat(2, 1, 1, 1, 3),
    "flip": lambda x: x.flip(1, -1),
    "pixel_shuffle": lambda x: torch.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: torch.pixel_unshuffle(x, 2),
    "channel_shuffle": lambda x: torch.channel_shuffle(x, 4),
    "contiguous": lambda x: x.transpose(1, 2).contiguous(),
    "clone": lambda x: x.clone(),
    "dropout": lambda x: torch.dropout(x, 0.5, False),
}


def test_movement_by_every_name_is_read_and_written() -> None:
    every = Network(lambda _, x: {name: torch.sigmoid(op(x)) for name, op in SPELLINGS.items()})
    source = read(torch.export.export(every.eval(), (torch.randn(1, 8, 6, 4),)))
    lifted = Lifted(with_own_graph(source))
    opaque = [lifted.graph.nodes[n].attr("tosa") for n in lifted.graph.live() if lifted.graph.nodes[n].op == "opaque"]
    assert opaque == []
    assert len(lifted.outputs) == len(SPELLINGS)
    assert compare(source, emit(lifted, lifted.graph), 4, exact=True) == 0


@pytest.mark.parametrize("wrong", [lambda x: x[:, -5:, :5], lambda x: x[:, :5].flip(1), lambda x: x[:, :5] + 1e-3])
def test_a_wrong_program_is_told_from_a_right_one(wrong) -> None:
    """The comparison sees another slice, another order and another constant."""
    source, other = (
        read(torch.export.export(sigmoid_of(f).eval(), (torch.randn(1, 8, 6),)))
        for f in (lambda x: x[:, :5, :5], wrong)
    )
    with pytest.raises(ProgramError, match="not equal"):
        compare(source, other, 4, exact=False)


def sigmoid_of(f: Callable[[torch.Tensor], torch.Tensor]) -> Network:
    return Network(lambda _, x: torch.sigmoid(f(x)))


def test_every_written_movement_stands_between_its_tensor_s_dequantize_and_quantize() -> None:
    lifted = Lifted(with_own_graph(read(program("pieces", "quantized"))))
    new = emit(lifted, lifted.graph)
    moves = ("permute", "view", "reshape", "slice", "cat", "flip", "repeat")
    moving = [n for n in new.graph.nodes if n.op == "call_function" and name(n.target) in moves]
    assert len(moving) > 5
    for n in moving:
        assert all(is_dequantize(x) for x in n.all_input_nodes) and all(is_quantize(u) for u in n.users), n
        params = {qparams(x) for x in (*n.all_input_nodes, *n.users)}
        assert len(params) == 1, (n, params)
        assert n.meta["custom"], "the Arm quantizer's mark, without which the partitioner refuses the op"


def test_integers_out_of_the_range_of_their_dequantize_are_not_moved_as_quantized() -> None:
    """dequantize; permute; quantize clamps them: only what is known to be in range is a pure movement."""

    def made(_, x):
        ops, how = torch.ops.quantized_decomposed, (0.1, 0, -127, 127, torch.int8)
        y = ops.dequantize_per_tensor.default(x, *how)
        return ops.quantize_per_tensor.default(y.permute(1, 0), *how)

    x = torch.tensor([[-128, 5], [127, -128]], dtype=torch.int8)
    source = read(torch.export.export(Network(made), (x,)))
    lifted = Lifted(with_own_graph(source))
    assert {lifted.graph.nodes[n].op for n in lifted.graph.live()} == {"input", "opaque"}
    new = emit(lifted, lifted.graph)
    (name,) = (lifted.graph.nodes[n].attr("name") for n in lifted.graph.inputs)
    assert torch.equal(run(new, {name: x})[0], torch.tensor([[-127, 127], [5, -127]], dtype=torch.int8))


def test_what_cannot_be_rewritten_is_named() -> None:
    turned, shapes = sigmoid_of(lambda x: x.transpose(0, 1)), (({0: torch.export.Dim("n", min=2)},),)
    dynamic = torch.export.export(turned, (torch.randn(4, 3),), dynamic_shapes=shapes)
    with pytest.raises(ProgramError, match="fixed shapes"):
        read(dynamic)
    with pytest.raises(ProgramError, match="torch.export"):
        read(torch.fx.symbolic_trace(torch.nn.ReLU()))


def test_a_program_that_changes_a_buffer_in_place_is_read_as_one_that_returns_it() -> None:
    def counting(self, x):
        self.count.add_(1)
        return x + self.count

    source = read(torch.export.export(Network(counting, count=torch.zeros(3)), (torch.randn(3),)))
    lifted = Lifted(with_own_graph(source))
    assert compare(source, emit(lifted, lifted.graph), 4, exact=True) == 0
    assert "count" in source.graph_signature.buffers_to_mutate.values()


def test_samples_have_extremes_and_fit_the_inputs() -> None:
    source = read(torch.export.export(sigmoid_of(lambda x: x.transpose(0, 1)), (torch.randn(4, 3),)))
    drawn = [x for xs in samples(source, 6) for x in xs.values()]
    assert all(x.shape == (4, 3) and x.dtype == torch.float32 for x in drawn)
    assert drawn[1].min() > 100 and not torch.equal(drawn[4], drawn[5])
    assert torch.equal(*samples(source, 5)[4].values(), drawn[4])
