"""The one YAML file -> typed, strict settings. Imports neither torch nor vllm.

`load` is the way in; every problem of a file comes back in one `ConfigError`, each with its line, its
field, the offending value and a suggestion.
"""

from kvant.config.kv_cache import KVCache
from kvant.config.load import Loaded, load, resolve, resolve_as
from kvant.config.model import Model
from kvant.config.monitoring import Monitoring
from kvant.config.security import Security
from kvant.config.serving import Serving
from kvant.config.settings import Settings

__all__ = [
    "KVCache",
    "Loaded",
    "Model",
    "Monitoring",
    "Security",
    "Serving",
    "Settings",
    "load",
    "resolve",
    "resolve_as",
]
