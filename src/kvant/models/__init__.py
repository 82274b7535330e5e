"""Models by name: the packaged ones are fetched, verified and converted once; folders are verified.

`resolve` turns what the user wrote into what vLLM is given, `manifest.verify` refuses damaged files.
Knows nothing of vLLM, and imports torch and transformers only in a process of its own (convert.py).
"""

from kvant.models.catalogue import CATALOGUE, PackagedModel, find
from kvant.models.obtain import pull
from kvant.models.resolve import resolve
from kvant.models.store import cache_root, folder_of

__all__ = ["CATALOGUE", "PackagedModel", "cache_root", "find", "folder_of", "pull", "resolve"]
