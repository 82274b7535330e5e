"""Published models as their config.json describes them, cut to what matters here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvant.plan.geometry import Model
from kvant.plan.model import of_path

LLAMA_8B = {
    "model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
LLAMA_70B = LLAMA_8B | {
    "num_hidden_layers": 80, "num_attention_heads": 64, "hidden_size": 8192, "intermediate_size": 28672,
}  # fmt: skip
QWEN3_4B = {
    "model_type": "qwen3", "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "hidden_size": 2560, "intermediate_size": 9728, "vocab_size": 151936,
    "max_position_embeddings": 40960, "tie_word_embeddings": True, "sliding_window": None,
    "use_sliding_window": False, "torch_dtype": "bfloat16",
}  # fmt: skip
MIXTRAL_8X7B = {
    "model_type": "mixtral", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
    "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None, "tie_word_embeddings": False,
}  # fmt: skip
MISTRAL_7B = {
    "model_type": "mistral", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000, "max_position_embeddings": 32768,
    "sliding_window": 4096, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V2 = {
    "model_type": "deepseek_v2", "num_hidden_layers": 60, "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "hidden_size": 5120, "intermediate_size": 12288, "moe_intermediate_size": 1536, "n_routed_experts": 160,
    "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "vocab_size": 102400,
    "max_position_embeddings": 163840, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK_V3 = DEEPSEEK_V2 | {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "first_k_dense_replace": 3, "vocab_size": 129280, "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
GEMMA3_4B = {
    "model_type": "gemma3",
    "architectures": ["Gemma3ForConditionalGeneration"],
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
        "sliding_window": 1024,
    },
    "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA3_27B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text", "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62,
        "sliding_window": 1024, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    },
    "torch_dtype": "bfloat16",
}  # fmt: skip
GEMMA2_2B = {
    "model_type": "gemma2", "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 256, "hidden_size": 2304, "intermediate_size": 9216, "vocab_size": 256000,
    "max_position_embeddings": 8192, "sliding_window": 4096,
}  # fmt: skip


def planned(folder: Path, config: dict[str, Any], **changes: Any) -> Model:
    """The model of a config.json with these fields, without weights."""
    file = folder / "config.json"
    file.write_text(json.dumps(config | changes, indent=2))
    return of_path(folder)
