"""Each rule between fields: a file that breaks it, and a close one that does not."""

from __future__ import annotations

import pytest

from kvant.config import rules

CASES = [
    # rule, broken file, message, file that is right
    (
        "unquantised_has_no_codec",
        "kv_cache:\n  enable_quant: false\n  key_bits: 4\n",
        "kvant.yaml:3: kv_cache.key_bits: 4 has no meaning for a cache that is not quantised; drop it, "
        "or set enable_quant: true (kv_cache.enable_quant is false, kvant.yaml:2)",
        "kv_cache:\n  enable_quant: false\n  codec: auto\n  block_size: 16\n  memory_gib: 2\n",
    ),
    (
        "unquantised_has_no_codec",
        "kv_cache:\n  enable_quant: false\n  recipe: made\n",
        "kvant.yaml:3: kv_cache.recipe: 'made' has no meaning for a cache that is not quantised; drop it, "
        "or set enable_quant: true (kv_cache.enable_quant is false, kvant.yaml:2)",
        "kv_cache:\n  enable_quant: false\n  recipe: null\n  preset: null\n",
    ),
    (
        "one_choice_of_formats",
        "kv_cache:\n  preset: max\n  key_bits: 8\n",
        "kvant.yaml:3: kv_cache.key_bits: 8 is said by the preset already; drop one of the two "
        "(kv_cache.preset is 'max', kvant.yaml:2)",
        "kv_cache:\n  preset: null\n  key_bits: 8\n",
    ),
    (
        "one_choice_of_formats",
        "kv_cache:\n  recipe: made\n  preset: int8\n",
        "kvant.yaml:3: kv_cache.preset: 'int8' is said by the recipe already; drop one of the two "
        "(kv_cache.recipe is 'made', kvant.yaml:2)",
        "kv_cache:\n  recipe: made\n  preset: null\n",
    ),
    (
        "one_choice_of_formats",
        "kv_cache:\n  recipe: made\n  skip_layers: [0]\n",
        "kvant.yaml:3: kv_cache.skip_layers: a list of 1 is said by the recipe already; drop one of the two "
        "(kv_cache.recipe is 'made', kvant.yaml:2)",
        "kv_cache:\n  preset: max\n  skip_layers: [0]\n",
    ),
    (
        "codec_has_the_width",
        "kv_cache:\n  codec: int\n  key_bits: 3\n",
        "kvant.yaml:3: kv_cache.key_bits: 3 must be 4 or 8 with this codec; did you mean codec: codebook? "
        "(kv_cache.codec is 'int', kvant.yaml:2)",
        "kv_cache:\n  codec: int\n  key_bits: 4\n",
    ),
    (
        "codec_has_the_width",
        "kv_cache:\n  codec: codebook\n  key_bits: 4\n",
        "kvant.yaml:2: kv_cache.value_bits: null must be 2 or 3 or 4 with this codec; "
        "did you mean codec: auto, or value_bits: 4? (kv_cache.codec is 'codebook', kvant.yaml:2)",
        "kv_cache:\n  codec: codebook\n  key_bits: 4\n  value_bits: 2\n",
    ),
    (
        "codec_has_the_width",
        "kv_cache:\n  codec: polar\n  key_bits: 4\n  value_bits: 3\n",
        "kvant.yaml:4: kv_cache.value_bits: 3 must be 4 with this codec; did you mean value_bits: 4? "
        "(kv_cache.codec is 'polar', kvant.yaml:2)",
        "kv_cache:\n  codec: polar\n  key_bits: 4\n  value_bits: 4\n",
    ),
    (
        "codec_has_the_width",
        "kv_cache:\n  codec: int\n  key_bits: 16\n",
        "kvant.yaml:3: kv_cache.key_bits: 16 must be 4 or 8 with this codec; "
        "did you mean codec: auto, or key_bits: 8? (kv_cache.codec is 'int', kvant.yaml:2)",
        "kv_cache:\n  codec: auto\n  key_bits: 16\n",
    ),
    (
        "residual_needs_codebook_keys",
        "kv_cache:\n  key_residual_bits: 1\n",
        "kvant.yaml:2: kv_cache.key_residual_bits: 1 needs keys in a codebook of 2, 3 or 4 bits; "
        "did you mean key_bits: 3, codec: auto? (kv_cache.codec is 'auto', default; "
        "kv_cache.key_bits is null, default)",
        "kv_cache:\n  key_residual_bits: 1\n  key_bits: 3\n",
    ),
    (
        "residual_needs_codebook_keys",
        "kv_cache:\n  key_residual_bits: 1\n  key_bits: 4\n  codec: int\n",
        "kvant.yaml:2: kv_cache.key_residual_bits: 1 needs keys in a codebook of 2, 3 or 4 bits; "
        "did you mean key_bits: 3, codec: auto? (kv_cache.codec is 'int', kvant.yaml:4; "
        "kv_cache.key_bits is 4, kvant.yaml:3)",
        "kv_cache:\n  key_residual_bits: 1\n  key_bits: 4\n  value_bits: 4\n  codec: codebook\n",
    ),
    (
        "residual_needs_codebook_keys",
        "kv_cache:\n  key_residual_bits: 1\n  key_bits: 3\n  scale: byte\n",
        "kvant.yaml:2: kv_cache.key_residual_bits: 1 is stored beside a 16-bit scale only; "
        "did you mean scale: bf16? (kv_cache.codec is 'auto', default; kv_cache.key_bits is 3, kvant.yaml:3; "
        "kv_cache.scale is 'byte', kvant.yaml:4)",
        "kv_cache:\n  key_residual_bits: 1\n  key_bits: 3\n  scale: bf16\n",
    ),
    (
        "codebooks_need_rotation",
        "kv_cache:\n  value_bits: 4\n  rotate_enable: false\n",
        "kvant.yaml:3: kv_cache.rotate_enable: false contradicts the codec: codebook, polar and trellis are "
        "made for rotated vectors; leave it out, or did you mean codec: int? "
        "(kv_cache.codec is 'auto', default; "
        "kv_cache.value_bits is 4, kvant.yaml:2)",
        "kv_cache:\n  value_bits: 4\n  codec: int\n  rotate_enable: false\n",
    ),
    (
        "codebooks_need_rotation",
        "kv_cache:\n  codec: polar\n  key_bits: 4\n  value_bits: 4\n  rotate_enable: false\n",
        "kvant.yaml:5: kv_cache.rotate_enable: false contradicts the codec: codebook, polar and trellis are "
        "made for rotated vectors; leave it out, or did you mean codec: int? "
        "(kv_cache.codec is 'polar', kvant.yaml:2; "
        "kv_cache.key_bits is 4, kvant.yaml:3)",
        "kv_cache:\n  codec: polar\n  key_bits: 4\n  value_bits: 4\n  rotate_enable: true\n",
    ),
    (
        "asymmetric_needs_int",
        "kv_cache:\n  asymmetric: true\n",
        "kvant.yaml:2: kv_cache.asymmetric: true is for integers only; did you mean codec: int? "
        "(kv_cache.codec is 'auto', default)",
        "kv_cache:\n  asymmetric: true\n  codec: int\n",
    ),
    (
        "byte_scale_needs_codebook",
        "kv_cache:\n  scale: byte\n",
        "kvant.yaml:2: kv_cache.scale: 'byte' is the scale of a codebook, and neither keys nor values "
        "use one; did you mean scale: bf16, or key_bits and value_bits of 2, 3 or 4? "
        "(kv_cache.codec is 'auto', default; "
        "kv_cache.key_bits is null, default; kv_cache.value_bits is null, default)",
        "kv_cache:\n  scale: byte\n  value_bits: 4\n",
    ),
    (
        "one_size_of_the_cache",
        "kv_cache:\n  memory_gib: 1\n  max_cache_blocks: 100\n",
        "kvant.yaml:3: kv_cache.max_cache_blocks: 100 states the size of the cache a second time; "
        "keep one of the two (kv_cache.memory_gib is 1, kvant.yaml:2)",
        "kv_cache:\n  max_cache_blocks: 100\n",
    ),
    (
        "metrics_port_is_another",
        "monitoring:\n  metrics_port: 8080\n",
        "kvant.yaml:2: monitoring.metrics_port: 8080 is taken by the API, which serves /metrics as well; "
        "set it to null, or choose another port (serving.port is 8080, default)",
        "monitoring:\n  metrics_port: 8081\n",
    ),
    (
        "remote_is_guarded",
        "serving:\n  host: 0.0.0.0\n",
        "kvant.yaml:2: serving.host: '0.0.0.0' lets other machines connect; set security.allow_remote: true "
        "and security.api_key_file, or host: 127.0.0.1 (security.allow_remote is false, default)",
        "serving:\n  host: 127.5.0.1\n",
    ),
    (
        "remote_is_guarded",
        "serving:\n  host: '::'\nsecurity:\n  api_key_file: keys.txt\n",
        "kvant.yaml:2: serving.host: '::' lets other machines connect; set security.allow_remote: true "
        "and security.api_key_file, or host: 127.0.0.1 (security.allow_remote is false, default)",
        "serving:\n  host: ::1\n",
    ),
    (
        "remote_is_guarded",
        "serving:\n  host: gpu-7.example.org\nsecurity:\n  allow_remote: true\n",
        "kvant.yaml:2: serving.host: 'gpu-7.example.org' lets other machines connect without a key; "
        "set security.api_key_file, or host: 127.0.0.1 (security.api_key_file is null, default)",
        "serving:\n  host: 0.0.0.0\nsecurity:\n  allow_remote: true\n  api_key_file: keys.txt\n",
    ),
    (
        "engine_options_are_not_ours",
        "engine:\n  max_model_len: 8192\n",
        "kvant.yaml:2: engine.max_model_len: 8192 cannot be passed on: set serving.max_context",
        "engine:\n  max_num_batched_tokens: 8192\n",
    ),
    (
        "engine_options_are_not_ours",
        "engine:\n  kv-cache-dtype: fp8\n",
        "kvant.yaml:2: engine.kv-cache-dtype: 'fp8' cannot be passed on: "
        "set kv_cache.codec, kv_cache.key_bits and kv_cache.value_bits",
        "engine: {}\n",
    ),
    (
        "engine_options_are_not_ours",
        "engine:\n  api_key: sk-1234\n",
        "kvant.yaml:2: engine.api_key: *** cannot be passed on: set security.api_key_file",
        "security:\n  api_key_file: keys.txt\n",
    ),
]


@pytest.mark.parametrize(("rule", "broken", "message", "right"), CASES, ids=[c[0] for c in CASES])
def test_a_rule_refuses_its_case_and_no_other(read, refuse, rule, broken, message, right):
    assert refuse(broken) == [message]
    read(right)


def test_every_rule_has_a_case():
    tables = (rules.UNQUANTISED, rules.QUANTISED, rules.ALWAYS)
    assert {rule.__name__ for table in tables for rule in table} == {case[0] for case in CASES}


def test_a_rule_broken_by_a_flag_names_the_flag(tmp_path):
    from kvant.config import load
    from kvant.errors import ConfigError

    file = tmp_path / "kvant.yaml"
    file.write_text("kv_cache:\n  enable_quant: false\n")
    with pytest.raises(ConfigError) as caught:
        load(file, {"kv_cache.key_bits": 4}, flags={"kv_cache.key_bits": "--key-bits"})
    assert str(caught.value).startswith("--key-bits: kv_cache.key_bits: 4 has no meaning")
    assert f"kv_cache.enable_quant is false, {file}:2" in str(caught.value)
