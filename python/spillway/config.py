"""Megatron Bridge's configuration: same sections, keys, defaults and recipe names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from spillway import _core

_RECIPES = Path(__file__).parent / "recipes"


class Finding(NamedTuple):
    """One violated rule, or something worth knowing."""

    severity: str
    """``"error"``, ``"warning"`` or ``"note"``."""
    keys: list[str]
    """The settings concerned, as ``"optimizer.optimizer_offload_fraction"``."""
    text: str
    """The values and the rule."""
    fix: str
    """What to change."""

    def __str__(self) -> str:
        place = f"{', '.join(self.keys)}: " if self.keys else ""
        return f"{self.severity}: {place}{self.text}; {self.fix}"


class Section:
    """One section of a configuration. Unknown names are refused, with the nearest one."""

    __slots__ = ("_core", "_name")

    def __init__(self, core: _core.Config, name: str) -> None:
        object.__setattr__(self, "_core", core)
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key: str) -> Any:
        return self._core.get(f"{self._name}.{key}")

    def __setattr__(self, key: str, value: Any) -> None:
        self._core.set(f"{self._name}.{key}", value)

    def __dir__(self) -> list[str]:
        return [row["name"] for row in _core.config_keys() if row["section"] == self._name]

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={getattr(self, key)!r}" for key in dir(self))
        return f"{self._name}({values})"


class ConfigContainer:
    """A complete configuration: ``cfg.optimizer.optimizer_cpu_offload = True``.

    Starts from the defaults, a recipe, YAML files and ``key=value`` overrides; later ones win.
    Raises :class:`spillway.ConfigError` with all errors at once if they break a rule.
    """

    def __init__(
        self,
        recipe: str | None = None,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        overrides: Sequence[str] = (),
        num_ranks: int | None = None,
    ) -> None:
        if recipe is None and not files and not overrides:
            core = _core.Config()
        else:
            core = _core.load_config(
                recipe=recipe,
                files=[os.fspath(file) for file in files],
                overrides=list(overrides),
                # Empty: the folders that the user's own variable names.
                recipe_folders=[] if "SPILLWAY_RECIPES" in os.environ else [str(_RECIPES)],
                num_ranks=num_ranks,
            )
        self._adopt(core)

    def _adopt(self, core: _core.Config) -> None:
        object.__setattr__(self, "_core", core)
        for name in _core.config_sections():
            object.__setattr__(self, name, Section(core, name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"'{name}' is no setting; settings are in sections, as cfg.optimizer.lr. "
            f"Sections: {', '.join(_core.config_sections())}."
        )

    def copy(self) -> ConfigContainer:
        """An independent configuration with the same values."""
        other = ConfigContainer.__new__(ConfigContainer)
        other._adopt(self._core.copy())
        return other

    __copy__ = copy

    def __deepcopy__(self, _memo: dict[int, Any]) -> ConfigContainer:
        return self.copy()

    def to_yaml(self) -> str:
        """Every key with its value; ``spillway train --config`` reads it back."""
        return self._core.to_yaml()

    def __repr__(self) -> str:
        return f"ConfigContainer(\n{self.to_yaml()})"


def check(config: ConfigContainer, num_ranks: int | None = None) -> list[Finding]:
    """Every rule that ``config`` violates; empty if there is none.

    ``num_ranks``: the ranks that there are; without it, rules that need their number are left out.
    """
    return [Finding(*row) for row in config._core.findings(num_ranks)]
