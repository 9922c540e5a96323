"""The two semantics of commands agree: terms claim what the functional model computes, or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from eqsat.device.core.operands import Accumulators, ByteRange, Dma, DmaSide, Element, Indices, Kernel
from eqsat.device.core.registers import AccInput, IfmUpscaleMode, PoolingMode
from eqsat.device.ethos_u55.registers import AccFormat
from eqsat.device.ethos_u85.registers import AccFormat as AccFormat85
from tests import sweeps
from tests.proof.commands import KINDS, Case, and85, claim, disagreement, pool55, pool85, row85, run, weights_of

SAMPLES = range(2)
#: Kinds that have no term.
UNCLAIMED = ("U55 LRELU", "U85 LRELU", "U85 CMP_NE", "U85 AND_NOT", "U85 RESIZE_REPLICATE")
#: Kinds of which the suite tries many: each way of scaling, rounding, shifting and summing once for a family.
MANY = ("U55 ADD", "U55 SHR", "U55 CONV", "U85 SHR", "U85 CONV")


@pytest.fixture
def plain_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("device.ethos_u55.execution", "device.ethos_u85.execution"):
        monkeypatch.setattr(f"eqsat.{module}.weights_of", weights_of)


@pytest.mark.usefixtures("plain_weights")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.slow] * (k in MANY)) for k in KINDS])
def test_commands_at_their_limits_are_what_the_functional_model_computes(kind: str) -> None:
    """In no case do both differ; with a term for the kind they agree in some."""
    agreed, every = 0, kind in MANY or sweeps.exhaustive

    @settings(max_examples=200 if every else 20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(KINDS[kind])
    def check(case: Case) -> None:
        nonlocal agreed
        for sample in SAMPLES:
            found = disagreement(case, sample)
            assert not found, f"{found}: {case.commands}"
            agreed += found is not None

    check()
    assert bool(agreed) != (kind in UNCLAIMED)


BYTE, WORD = Element(True, 8), Element(True, 32)


def test_accumulators_that_the_model_does_not_know_have_no_maximum() -> None:
    case = pool55(PoolingMode.MAX, BYTE)
    assert disagreement(case, 0) == ""
    (c,) = case.commands
    unknown = replace(case, commands=(replace(c, accumulators=Accumulators(AccFormat.F16)),))
    assert run(unknown, 0) is claim(unknown, 0) is None


def test_a_maximum_that_accumulators_have_no_room_for_is_noted() -> None:
    case = pool55(PoolingMode.MAX, WORD, zero_point=-1)
    case = replace(case, given=(np.full((1, 1, 1), (1 << 31) - 1),))
    found = claim(case, 0)
    assert run(case, 0) is None and (found is None or found[1])


def test_a_sum_that_only_its_bias_brings_back_into_accumulators_is_noted() -> None:
    """2^31 is none of 32 bits, but 2^31 - 2^31 is."""
    case = pool85(PoolingMode.SUM, WORD, (1, 2))
    given = np.full((1, 2, 1), 1 << 30)
    record = (-(1 << 31)).to_bytes(4, "little", signed=True) + (1).to_bytes(4, "little") + bytes(2)
    (c,) = case.commands
    own = replace(c, scales=(ByteRange(0, 0, 10),), output=replace(c.output, scale=None))
    held = tuple((m, True, small) for m, _, small in case.held)
    case = replace(case, commands=(own,), constants=record, held=held, given=(given,))
    found = claim(case, 0)
    assert run(case, 0) is None and (found is None or found[1])
    fits = replace(case, given=(given - 1,))
    assert run(fits, 0).item() == -2 and claim(fits, 0)[0].item() == -2


def test_an_operand_that_is_no_word_without_its_zero_point_is_not_claimed() -> None:
    case = replace(and85(WORD, zero_point=1), given=(np.full((1, 1, 1), -(1 << 31)),))
    assert claim(case, 0) is None
    assert disagreement(replace(case, commands=and85(WORD, zero_point=0).commands), 0) == ""


def kept_accumulators() -> Case:
    """Sums that are kept, and added to themselves."""
    case = pool85(PoolingMode.SUM, BYTE, (1, 2), result=WORD)
    (c,) = case.commands
    how = Accumulators(AccFormat85.I32, AccInput.RESET, False), Accumulators(AccFormat85.I32, AccInput.KEEP, True)
    return replace(case, commands=tuple(replace(c, accumulators=k) for k in how))


#: Padding at the far end hides what an upscaled input has there; zeros between elements do not count in an average.
FAR, AROUND = Kernel(2, 2, (1, 1), (1, 1), 0, 0, 1, 1), Kernel(3, 3, (1, 1), (1, 1), 1, 1, 0, 0)


@pytest.mark.parametrize(
    "case, given, result",
    [
        (kept_accumulators(), -100, -400),
        (pool85(PoolingMode.MAX, BYTE, kernel=FAR, upscale=IfmUpscaleMode.ZEROS), -7, -7),
        (pool85(PoolingMode.MIN, BYTE, kernel=FAR, upscale=IfmUpscaleMode.ZEROS), 7, 7),
        (pool85(PoolingMode.SUM, BYTE, kernel=FAR, upscale=IfmUpscaleMode.NEAREST), 7, 7),
        (pool55(PoolingMode.AVERAGE, BYTE, kernel=AROUND, upscale=IfmUpscaleMode.ZEROS), 100, 100),
        (pool85(PoolingMode.AVERAGE, BYTE, kernel=AROUND, upscale=IfmUpscaleMode.ZEROS), 100, 100),
    ],
)
def test_both_give_what_the_command_computes(case: Case, given: int, result: int) -> None:
    ((m, *_),) = case.held
    case = replace(case, given=(np.full((m.height, m.width, m.depth), given),))
    assert run(case, 0).item() == claim(case, 0)[0].item() == result


@pytest.mark.parametrize("upscale", [IfmUpscaleMode.NEAREST, IfmUpscaleMode.ZEROS])
def test_the_place_of_a_maximum_in_an_upscaled_input_is_not_known(upscale: IfmUpscaleMode) -> None:
    case = pool85(PoolingMode.ARGMAX_X, BYTE, (1, 2), kernel=Kernel(1, 4, (1, 1), (1, 1), 0, 0, 0, 0), upscale=upscale)
    assert run(case, 0) is claim(case, 0) is None


def test_a_copy_by_indices_reads_all_before_it_writes() -> None:
    """Two pieces of two bytes each, the second of which begins where the first is written."""
    case = row85(BYTE, 6)
    numbers = np.array([0, 1, 0, 0], np.int32).tobytes()
    source, destination = DmaSide(1, 0, (0, 2), indexed=True), DmaSide(1, 2, (0, 2))
    c = Dma(0, 2, (1, 2), source, destination, Indices(0, 0, 3, 0))
    case = replace(case, commands=(c,), constants=numbers, given=(np.arange(6).reshape(1, 6, 1),))
    assert run(case, 0).reshape(-1).tolist() == claim(case, 0)[0].reshape(-1).tolist() == [0, 1, 0, 1, 2, 3]
