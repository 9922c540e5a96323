"""The target of a compilation: the Vela flags of ExecuTorch's EthosUCompileSpec."""

from __future__ import annotations

import configparser
import difflib
import importlib.util
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat.ground.files import InputError
from eqsat.target.family import FAMILIES, Core, Family

if TYPE_CHECKING:
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

        Options default to ExecuTorch's, so it equals the target of an `EthosUCompileSpec` with the same options.
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
        """Returns the target of Vela's flags. Raises TargetError unless `--accelerator-config` has a known name."""
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


# The system configuration and memory mode of a target, in Vela's .ini file or in the user's own.

_SYSTEM, _MODE = "System_Config.", "Memory_Mode."
#: The family in the name of a system configuration.
_FAMILY_NAME = re.compile(r"Ethos_U(\d\d)")
#: Ends of the keys of a system configuration whose numbers cycles are divided by.
_POSITIVE = ("core_clock", "_clock_scale", "_burst_length")


def parse_target(name: str) -> Target:
    """Parses `ACCELERATOR`, which has ExecuTorch's memory mode, or `ACCELERATOR@MEMORY_MODE`. Raises TargetError."""
    accelerator, _, mode = name.partition("@")
    target = Target.of(accelerator, memory_mode=mode or None)
    sections_of(target)
    return target


def sections_of(target: Target) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Returns the system configuration of a target and its memory mode, each with what it inherits.

    Raises TargetError for a file or a name that does not exist or cannot be used, or a name of another family.
    """
    ini, name = configparser.ConfigParser(), target.value_of("--config") or "Arm/vela.ini"
    system_config, memory_mode = (target.value_of(o) or "" for o in ("--system-config", "--memory-mode"))
    try:
        ini.read(_place(name), encoding="utf-8")
        system = _whole(ini, _section(ini, _SYSTEM, system_config, f"{name} has no system configuration"))
        mode = _whole(ini, _section(ini, _MODE, memory_mode, f"{name} has no memory mode"))
    except (configparser.Error, UnicodeDecodeError) as e:
        raise TargetError(f"the Vela config file {name} cannot be used: {' '.join(str(e).split())}") from e
    for key, value in system.items():
        if key.endswith(_POSITIVE) and not _is_positive(value):
            raise TargetError(f"{name} has {key}={value} for {system_config}: give a number above 0")
    _check_family(target, system_config, memory_mode, _names(ini, _SYSTEM))
    return system, mode


def _whole(ini: configparser.ConfigParser, section: configparser.SectionProxy) -> Mapping[str, str]:
    """Returns a section with what it inherits, as Vela reads it. Raises configparser.Error."""
    names, found = [section.name], dict(section)
    while (parent := found.pop("inherit", None)) is not None:
        if parent in names:
            raise configparser.Error(f"{parent} inherits itself")
        names.append(parent)
        if parent not in ini:
            raise configparser.NoSectionError(parent)
        found = {**ini[parent], **found}
    return found


def _is_positive(value: str) -> bool:
    try:
        return 0 < float(value) < math.inf
    except ValueError:
        return False


def _check_family(target: Target, system: str, mode: str, systems: Sequence[str]) -> None:
    """Raises TargetError for a system configuration, one of `systems`, or a memory mode of another family."""
    if not _is_for(target, system):
        use = f": use {' or '.join(own)}" if (own := [s for s in systems if _is_for(target, s)]) else ""
        raise TargetError(f"the system configuration {system} is of another NPU than {target.accelerator}{use}")
    if mode.startswith("Dedicated_Sram") and not target.family.dedicated_sram:
        raise TargetError(f"the memory mode {mode} is not for {target.accelerator}: use Shared_Sram or Sram_Only")


def _is_for(target: Target, system: str) -> bool:
    """Whether a system configuration names the target's family, or none."""
    family = _FAMILY_NAME.match(system)
    return family is None or f"u{family[1]}" == target.family.name


def _names(ini: configparser.ConfigParser, prefix: str) -> list[str]:
    """Returns the names of the sections that have a prefix, without it."""
    return [s.removeprefix(prefix) for s in ini.sections() if s.startswith(prefix)]


def _section(ini: configparser.ConfigParser, prefix: str, name: str, missing: str) -> configparser.SectionProxy:
    if prefix + name in ini:
        return ini[prefix + name]
    known = {known.lower(): known for known in _names(ini, prefix)}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    meant = f" (did you mean {known[near[0]]}?)" if near else ""
    raise TargetError(f"{missing} {name!r}: use one of {', '.join(known.values())}{meant}")


def _place(name: str) -> Path:
    """Returns the file of a name, which Vela also finds among its own files.

    Raises TargetError if there is none, and ImportError if Vela is not installed.
    """
    if Path(name).is_file():
        return Path(name)
    spec = None
    with suppress(ModuleNotFoundError):
        spec = importlib.util.find_spec("ethosu")
    if not spec:
        raise ImportError("Vela is not installed: pip install ethos-u-vela")
    packages = spec.submodule_search_locations or ()
    places = [Path(p) / sub / "config_files" / name for p in packages for sub in ("", "regor", "vela")]
    if found := next((p for p in places if p.is_file()), None):
        return found
    raise TargetError(f"the Vela config file {name} does not exist")
