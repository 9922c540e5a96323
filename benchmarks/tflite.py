"""Compiles .tflite models by Vela, for the studies that have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cost_models.command_stream import price
from eqsat.device.core.errors import DeviceError
from eqsat.ground.process import Limits
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.vela.compile import Estimate
from eqsat.vela.regor import configure, figures

#: The first bytes of a command stream, for the driver.
_DRIVER = b"COP1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TfliteEstimate(Estimate):
    """Vela's estimate of a .tflite; its `stream` is the whole .tflite that Vela writes.

    cpu_operators: operators that Vela leaves to the CPU
    """

    cpu_operators: int

    @property
    def streams(self) -> list[bytes]:
        """The command streams, one for each part of the network that the NPU runs.

        Each is a vector of bytes, behind its length, that begins with the driver's mark.
        """
        tflite, found = self.stream, []
        at = tflite.find(_DRIVER)
        while at >= 0:
            length = int.from_bytes(tflite[at - 4 : at], "little")
            if len(_DRIVER) < length <= len(tflite) - at:
                found.append(tflite[at : at + length])
            at = tflite.find(_DRIVER, at + 1)
        return found


def compile_tflite(buffer: bytes, target: Target, via: Pool | Worker) -> TfliteEstimate:
    """Compiles a .tflite model for `target`.

    Raises WorkerError with Vela's reason, `refused` if Vela refused the model.
    """
    return TfliteEstimate.read(via.call(vela, buffer, list(target.flags), limits=Limits(300.0)))


def count_cycles(estimate: TfliteEstimate, target: Target) -> int:
    """Returns the calibrated cycles of all parts, Vela's total if there are none or a command has no price."""
    try:
        return sum(price(s, target).cycles for s in estimate.streams) or estimate.cycles
    except DeviceError:
        return estimate.cycles


def vela(buffer: bytes, flags: list[str]) -> dict[str, Any]:
    """Compiles a .tflite once and returns its figures, by the fields of `TfliteEstimate`; called in a worker."""
    from ethosu import regor

    asked = configure(tuple(flags))
    options = asked.options.replace("output_format=Raw", "output_format=TFLite", 1)
    model = regor.compile(asked.accelerator, buffer, "TFLITE", asked.system, options=options)
    raw = {"stream": bytes(model.model), "read_only": b""}
    return {**figures(asked, model, {}), "raw": raw, "cpu_operators": int(model.perf_report.cpuOps)}
