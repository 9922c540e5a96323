"""The target of a compilation: the Vela flags of ExecuTorch's EthosUCompileSpec."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from eqsat.ground.files import InputError
from eqsat.target.families import FAMILIES
from eqsat.target.family import Core, Family

if TYPE_CHECKING:  # ExecuTorch takes seconds to import
    from executorch.backends.arm.ethosu import EthosUCompileSpec

#: {accelerator configuration: its family}.
_FAMILY = {accelerator: family for family in FAMILIES for accelerator in family.cores}
#: Every accelerator configuration of Vela (`vela --help`).
ACCELERATORS = tuple(_FAMILY)
#: Vela's own file of configurations, by the name under which Vela finds it.
_CONFIG = "Arm/vela.ini"


class TargetError(InputError):
    """An unknown accelerator configuration; the message lists the known ones."""


@dataclass(frozen=True, slots=True)
class Target:
    """An accelerator configuration and the flags that `vela` gets for it."""

    accelerator: str
    flags: tuple[str, ...]

    @staticmethod
    def of(
        name: str | Target,
        *,
        system_config: str | None = None,
        memory_mode: str | None = None,
        config: str | None = None,
    ) -> Target:
        """Returns the target of an accelerator name; a Target is returned unchanged.

        Without options it has ExecuTorch's default system config, memory mode and config file.
        It equals the target of an `EthosUCompileSpec` with these options.
        Raises TargetError for a name that Vela does not know.
        """
        if isinstance(name, Target):
            return name
        Target.check_name(name)
        family = _FAMILY[name.lower()]
        return Target.from_flags(
            [
                f"--accelerator-config={name.lower()}",
                f"--config={config or _CONFIG}",
                "--output-format=raw",
                f"--system-config={system_config or family.system_config}",
                f"--memory-mode={memory_mode or family.memory_mode}",
            ]
        )

    @staticmethod
    def check_name(name: str) -> None:
        """Raises TargetError for a name that Vela does not know."""
        if name.lower() not in ACCELERATORS:
            raise TargetError(f"unknown target {name!r}: use one of {', '.join(ACCELERATORS)}")

    @staticmethod
    def from_compile_spec(spec: EthosUCompileSpec) -> Target:
        """Returns the target of an `EthosUCompileSpec`. Raises TargetError."""
        return Target.from_flags(spec.compiler_flags)

    @staticmethod
    def from_flags(flags: Sequence[str]) -> Target:
        """Returns the target of Vela command-line flags, which must have `--accelerator-config`.

        Raises TargetError.
        """
        for f in flags:
            if m := re.fullmatch(r"--accelerator-config=(\S+)", f):
                Target.check_name(m[1])
                # output paths are not part of a target
                kept = tuple(f for f in flags if f.startswith("--") and not f.startswith(("--output-dir", "--verbose")))
                return Target(m[1].lower(), kept)
        raise TargetError(f"no --accelerator-config among the Vela flags {list(flags)}")

    def with_flags(self, flags: Sequence[str]) -> Target:
        """Returns the target with more flags."""
        return Target(self.accelerator, (*self.flags, *flags)) if flags else self

    def value_of(self, option: str) -> str | None:
        """Returns the value of one of Vela's options, or None if it is not among the flags."""
        return next((value for flag in self.flags for name, _, value in [flag.partition("=")] if name == option), None)

    @property
    def configuration(self) -> dict[str, str | None]:
        """The system configuration, the memory mode and the .ini file that has both."""
        names = {"system_config": "--system-config", "memory_mode": "--memory-mode", "config": "--config"}
        return {key: self.value_of(option) for key, option in names.items()}

    def sets(self, option: str) -> bool:
        """Whether one of Vela's options is among the flags."""
        return self.value_of(option) is not None

    @property
    def family(self) -> Family:
        return _FAMILY[self.accelerator]

    @property
    def core(self) -> Core:
        return self.family.cores[self.accelerator]
