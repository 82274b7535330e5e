"""The `engine` section: options of vLLM by their own names, and those that Kvant sets itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_SERVER = "Kvant runs its own HTTP server"
_UNTESTED = "the start-up check covers tensor parallelism only, so far"
_PAGES = "Kvant's pages cannot be moved by a connector"

OWNED: dict[str, str] = {
    "model": "set model.path",
    "model_tag": "set model.path",
    "dtype": "set model.dtype",
    "served_model_name": "set model.served_name",
    "max_model_len": "set serving.max_context",
    "max_num_seqs": "set serving.max_batch",
    "tensor_parallel_size": "set serving.tensor_parallel",
    "shutdown_timeout": "set serving.drain_timeout",
    "host": "set serving.host",
    "port": "set serving.port",
    "block_size": "set kv_cache.block_size",
    "kv_cache_dtype": "set kv_cache.codec, kv_cache.key_bits and kv_cache.value_bits",
    "kv_cache_dtype_skip_layers": "set kv_cache.skip_layers",
    "num_gpu_blocks_override": "set kv_cache.max_cache_blocks",
    "kv_cache_memory_bytes": "set kv_cache.memory_gib",
    "attention_backend": "set kv_cache.enable_quant",
    "attention_config": "set kv_cache.enable_quant",
    "additional_config": "set the fields of kv_cache",
    "worker_extension_cls": "Kvant's start-up check needs its own; leave it out",
    "api_key": "set security.api_key_file",
    "log_level": "set monitoring.log_level",
    "uvicorn_log_level": "set monitoring.log_level",
    "kv_transfer_config": f"{_PAGES}; leave it out",
    "kv_offloading_size": f"{_PAGES}; leave it out",
    "kv_offloading_backend": f"{_PAGES}; leave it out",
    "config": "use kvant serve -c FILE",
    "headless": f"{_SERVER}; leave it out",
    "grpc": f"{_SERVER}; leave it out",
    "grpc_port": f"{_SERVER}; leave it out",
    "uds": f"{_SERVER}; set serving.host and serving.port",
    "api_server_count": f"{_SERVER}; leave it out",
    "ssl_keyfile": f"{_SERVER} without TLS; put a TLS proxy before it",
    "ssl_certfile": f"{_SERVER} without TLS; put a TLS proxy before it",
    "ssl_ca_certs": f"{_SERVER} without TLS; put a TLS proxy before it",
    "ssl_cert_reqs": f"{_SERVER} without TLS; put a TLS proxy before it",
    "ssl_ciphers": f"{_SERVER} without TLS; put a TLS proxy before it",
    "enable_ssl_refresh": f"{_SERVER} without TLS; put a TLS proxy before it",
    "h11_max_incomplete_event_size": f"{_SERVER} with its own limits; leave it out",
    "h11_max_header_count": f"{_SERVER} with its own limits; leave it out",
    "disable_uvicorn_access_log": f"{_SERVER}; set monitoring.log_level",
    "disable_access_log_for_endpoints": f"{_SERVER}; set monitoring.log_level",
    "pipeline_parallel_size": f"{_UNTESTED}; leave it out",
    "data_parallel_size": f"{_UNTESTED}; leave it out",
    "data_parallel_size_local": f"{_UNTESTED}; leave it out",
    "data_parallel_rank": f"{_UNTESTED}; leave it out",
    "data_parallel_backend": f"{_UNTESTED}; leave it out",
}
"""Options that are refused under `engine`, and what to do instead."""


def owned(options: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """(name, reason) for each option that Kvant sets itself, however it is spelt."""
    for name in options:
        mend = OWNED.get(name.removeprefix("--").replace("-", "_"))
        if mend:
            yield name, f"cannot be passed on: {mend}"
