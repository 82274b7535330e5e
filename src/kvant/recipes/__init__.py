"""Recipes: how one model's cache is stored, learnt from the model, pinned to its digest.

`load` reads a recipe and imports no framework; `calibrate` makes one and needs torch and transformers;
`preset` holds the named choices that know no model. Knows nothing of vLLM.
"""

from kvant.recipes.recipe import Recipe, load

__all__ = ["Recipe", "load"]
