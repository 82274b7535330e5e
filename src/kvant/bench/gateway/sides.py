"""What is measured: the engine by itself, Kvant's gateway before it, and LiteLLM's proxy before it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from kvant.bench.gateway.stub import MODEL
from kvant.bench.serve.sides import Side

BARE, KVANT, LITELLM = "bare", "kvant", "litellm"


def stub(port: int, per_token: float) -> Side:
    command = (sys.executable, "-m", "kvant.bench.gateway.stub", str(port), str(per_token))
    return Side(BARE, command, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def kvant(port: int, engine: str, folder: Path) -> Side:
    """`kvant gateway` as it is by default, but for room for all the streams."""
    file = folder / "gateway.yaml"
    settings = {
        "listen": {"port": port},
        "arms": {"baseline": {"urls": [engine]}},
        "limits": {"concurrency": 8192},
        "scheduling": {"max_concurrency": 8192},
        "monitoring": {"log_level": "warning"},
    }
    file.write_text(json.dumps(settings))
    command = (sys.executable, "-c", "from kvant.cli import main; main()", "gateway", "-c", str(file))
    return Side(KVANT, command, {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def litellm(port: int, engine: str, folder: Path, binary: Path) -> Side:
    """LiteLLM's proxy with one model and nothing else turned on, one worker as the gateway has."""
    file = folder / "litellm.yaml"
    parameters = {"model": f"openai/{MODEL}", "api_base": f"{engine}/v1", "api_key": "none"}
    file.write_text(json.dumps({"model_list": [{"model_name": MODEL, "litellm_params": parameters}]}))
    command = (str(binary), "--config", str(file), "--host", "127.0.0.1", "--port", str(port))
    env = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # no keys, as the gateway here
        "PYTHONPATH": "",
    }
    return Side(LITELLM, (*command, "--num_workers", "1"), env)
