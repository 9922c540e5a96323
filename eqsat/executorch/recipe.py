"""`executorch.export` with eqsat: recipes for every Ethos-U, int8 and a16w8.

>>> import eqsat.executorch.recipe  # registers the provider, under the backend name "eqsat"
>>> recipe = ExportRecipe.get_recipe(eqsat.RecipeType.ETHOS_U85_INT8, macs=512)
>>> session = executorch.export.export(model, [example_inputs], recipe)

A recipe is Arm's own for an equal target, with `eqsat.EthosUPartitioner` as its partitioner.
Those for a16w8, which Arm does not have, are the int8 ones with Arm's quantization of 16-bit activations.
Source: executorch 1.5, backends/arm/recipes/arm_recipe_provider.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import executorch.export as et
from executorch.backends.arm.quantizer import get_symmetric_a16w8_quantization_config
from executorch.backends.arm.recipes import ArmRecipeProvider, ArmRecipeType

from eqsat.executorch.partitioner import EthosUPartitioner
from eqsat.options.options import given_options

#: The name under which the provider is registered.
_BACKEND = "eqsat"
#: Arguments that a recipe takes.
_TAKEN = ("macs", "system_config", "memory_mode", "extra_flags", "config_ini", "options")


class RecipeType(et.RecipeType):
    """Recipes by family and quantization, with the arguments of Arm's Ethos-U recipes, and `options`."""

    ETHOS_U55_INT8 = "eqsat_ethos_u55_int8"
    ETHOS_U65_INT8 = "eqsat_ethos_u65_int8"
    ETHOS_U85_INT8 = "eqsat_ethos_u85_int8"
    ETHOS_U55_A16W8 = "eqsat_ethos_u55_a16w8"
    ETHOS_U65_A16W8 = "eqsat_ethos_u65_a16w8"
    ETHOS_U85_A16W8 = "eqsat_ethos_u85_a16w8"

    @classmethod
    def get_backend_name(cls) -> str:
        return _BACKEND


class RecipeProvider(et.BackendRecipeProvider):
    """Makes the recipes of `RecipeType`."""

    @property
    def backend_name(self) -> str:
        return _BACKEND

    def get_supported_recipes(self) -> Sequence[et.RecipeType]:
        return list(RecipeType)

    def create_recipe(self, recipe_type: et.RecipeType, **kwargs: Any) -> et.ExportRecipe | None:
        """Returns a recipe, None for a recipe of another backend.

        Raises ValueError for an accelerator that Vela does not have.
        Raises TypeError for an unknown argument, and for options of another type.
        """
        if not isinstance(recipe_type, RecipeType):
            return None
        if unknown := sorted(set(kwargs) - set(_TAKEN)):
            raise TypeError(f"recipe {recipe_type.value} takes {', '.join(_TAKEN)}, not {', '.join(unknown)}")
        options = given_options(kwargs.pop("options", None))
        family, _, quantization = recipe_type.name.rpartition("_")
        recipe = ArmRecipeProvider().create_recipe(ArmRecipeType[f"{family}_INT8"], **kwargs)
        (arm,) = recipe.lowering_recipe.partitioners
        recipe.name = recipe_type.value
        recipe.lowering_recipe.partitioners = [EthosUPartitioner(arm.compile_spec, options=options)]
        if quantization == "A16W8":
            (quantizer,) = recipe.quantization_recipe.quantizers
            quantizer.set_global(get_symmetric_a16w8_quantization_config(is_per_channel=True))
        return recipe


et.recipe_registry.register_backend_recipe_provider(RecipeProvider())
