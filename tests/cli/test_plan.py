"""`kvant plan`: its table, JSON and tornado, its exit status, and what it refuses."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.plan.models import DEEPSEEK_V3, GEMMA3_27B, LLAMA_8B, QWEN3_4B

drawn = pytest.mark.skipif(find_spec("matplotlib") is None, reason="needs the extra kvant[plot]")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return _write(tmp_path, QWEN3_4B)


def _write(folder: Path, config: dict) -> Path:
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _table(out: str) -> dict[str, list[str]]:
    """Rows of the table by precision."""
    lines = out.split("\n\n")[1].splitlines()
    return {cells[0]: cells[1:] for line in lines if (cells := line.split()) and len(cells) == 9}


def test_the_table_is_what_the_json_says_in_80_columns(kvant_command, folder, tmp_path):
    file = tmp_path / "plan.json"
    result = kvant_command("plan", str(folder), "--on", "h100", "--context", "8192", "--json", str(file))
    assert (result.status, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= 80
    written = json.loads(file.read_text())
    assert written["fits"]
    rows = {row["precision"]: row for row in written["rows"]}
    table = _table(result.out)
    assert list(table) == list(rows) == [
        "bf16", "fp8", "turboquant_3bit_nc", "int8", "lossless", "balanced", "max"
    ]  # fmt: skip
    for name, cells in table.items():
        assert cells[1] == f"{rows[name]['token_bytes']:,}"
        assert cells[3:7] == [
            f"{rows[name][x]:,}" for x in ("num_blocks", "longest_fit", "requests", "max_num_seqs")
        ]
    assert rows["bf16"]["token_bytes"] == 147_456
    assert rows["lossless"]["token_bytes"] == 36 * 8 * 2 * (64 + 1)  # 4 bits and a byte for 128 numbers


def test_the_limits_are_a_valid_configuration(kvant_command, folder, tmp_path):
    out = kvant_command("plan", str(folder), "--on", "l40s", "--context", "4096:90,20000:10").out
    start = out.index("  serving:")
    file = tmp_path / "kvant.yaml"
    text = out[start : out.index("Overload begins")]
    file.write_text("\n".join(line.removeprefix("  ") for line in text.splitlines()) + "\n")
    assert kvant_command("config", "check", "-c", str(file)).status == 0
    assert "max_context: 20000" in text
    assert "preset: lossless" in text


def test_limits_of_a_cache_of_vllm_are_its_flags(kvant_command, folder):
    words = ["--on", "l40s", "--context", "4096", "--precision", "bf16,fp8", "--candidate", "fp8"]
    out = kvant_command("plan", str(folder), *words).out
    seqs = _table(out)["fp8"][6]
    assert "--kv-cache-dtype fp8 --block-size 64" in out
    assert f"--max-model-len 4096 --max-num-seqs {seqs} --num-gpu-blocks-override" in out


def test_every_assumption_is_shown(kvant_command, folder):
    out = " ".join(kvant_command("plan", str(folder), "--on", "h100", "--context", "8192").out.split())
    for words in (
        "vLLM takes 92%", "with 25% of the pool left free", "60% of its bandwidth", "1.5 of overhead",
        "an estimated", "prices are EXAMPLES", "energy_price 0.15", "worse_share 0.0002",
    ):  # fmt: skip
        assert words in out


def test_options_change_the_plan(kvant_command, folder, tmp_path):
    def seqs(*words):
        file = tmp_path / "plan.json"
        kvant_command("plan", str(folder), "--on", "h100", "--context", "8192", "--json", str(file), *words)
        plan = json.loads(file.read_text())
        return plan["limits"]["max_batch"], plan["return"]["base"]["year"]

    base, year = seqs()
    assert seqs("--margin", "0.5")[0] < base < seqs("--margin", "0")[0]
    assert seqs("--utilisation", "0.5")[0] < base
    assert seqs("--overhead-gib", "20")[0] < base
    assert seqs("--weights-gib", "30")[0] < base
    assert seqs("--kv-memory-gib", "10")[0] < base < seqs("--devices", "2")[0]
    assert seqs("--max-num-seqs", "8")[0] == 8
    assert seqs("--candidate", "max")[0] > base
    assert seqs("--set", "price_factor=2")[1] > year
    assert seqs("--set", "day_rate=0")[1] > year


def test_nothing_fits_is_status_1_with_the_reason_and_what_would(kvant_command, folder, tmp_path):
    words = ["plan", str(folder), "--on", "l4", "--context", "32768", "--precision", "bf16"]
    result = kvant_command(*words, "--concurrency", "10", "--json", str(tmp_path / "plan.json"))
    assert result.status == 1
    assert "Nothing fits: 10 requests of 32,768 tokens at most do not fit" in result.out
    written = json.loads((tmp_path / "plan.json").read_text())
    assert (written["fits"], len(written["changes"])) == (False, 5)
    # Each of the changes is enough, and a little less of it is not.
    fewer = int(written["changes"][2].split()[1])
    assert [kvant_command(*words, "--concurrency", str(n)).status for n in (fewer, fewer + 1)] == [0, 1]
    shorter = int(written["changes"][1].split("--context ")[1].rstrip(")"))
    for tokens, status in ((shorter, 0), (shorter + 64, 1)):
        again = [*words, "--concurrency", "10"]
        again[again.index("32768")] = str(tokens)
        assert kvant_command(*again).status == status
    name = written["changes"][0].split()[1]
    again = [name if word == "bf16" else word for word in words]
    assert kvant_command(*again, "--concurrency", "10").status == 0
    devices = written["changes"][3].split()[1]
    assert kvant_command(*words, "--concurrency", "10", "--devices", devices).status == 0


def test_weights_that_are_too_large_are_the_reason(kvant_command, tmp_path):
    result = kvant_command("plan", str(_write(tmp_path, DEEPSEEK_V3)), "--on", "h200", "--context", "8192")
    assert result.status == 1
    # 624.94 GiB of weights; activations of 4,096 x (4 x 7168 + 2 x 18432 + 4 x 128 x 128) bytes; 1.5 beside.
    assert "weights, activations and overhead take 626.9 GiB" in " ".join(result.out.split())
    assert "--devices 8" in result.out
    again = kvant_command("plan", str(tmp_path), "--on", "h200", "--context", "8192", "--devices", "8")
    assert again.status == 0
    assert "int8: Kvant does not store MLA's latent vectors" in again.out


def test_windows_are_said_and_planned(kvant_command, tmp_path):
    out = kvant_command("plan", str(_write(tmp_path, GEMMA3_27B)), "--on", "h100", "--context", "32768").out
    assert "52 with a window of 1,024" in " ".join(out.split())
    # Windows of 1,024 beside full layers: many more long requests than bytes a token suggest.
    assert int(_table(out)["bf16"][4]) > float(_table(out)["bf16"][2]) * 2**30 / (507_904 * 32768)


@drawn
def test_a_tornado_is_drawn(kvant_command, folder, tmp_path):
    file = tmp_path / "tornado.svg"
    words = ["plan", str(folder), "--on", "h100", "--context", "8192", "--plot", str(file)]
    assert kvant_command(*words).status == 0
    text = file.read_text()
    assert text.startswith("<?xml")
    for word in ("price_factor", "engineering_days", "lossless instead of bf16", "examples"):
        assert word in text


@drawn
def test_a_tornado_that_has_nothing_to_show_is_not_written_and_says_so(kvant_command, folder, tmp_path):
    file = tmp_path / "tornado.svg"
    words = [
        "plan",
        str(folder),
        "--on",
        "h100",
        "--context",
        "8192",
        "--precision",
        "bf16",
        "--plot",
        str(file),
    ]
    assert "is not written: there is no return to draw" in kvant_command(*words).err
    assert not file.exists()


def test_a_plot_that_cannot_be_drawn_is_refused_before_anything(
    kvant_command, folder, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kvant.bench.plot.find_spec", lambda name: None)
    words = ["plan", str(folder), "--on", "h100", "--context", "8192", "--json", str(tmp_path / "plan.json")]
    done = kvant_command(*words, "--plot", str(tmp_path / "tornado.svg"))
    assert (done.status, done.out) == (2, "")
    assert "matplotlib, which is not installed" in done.err


def test_one_request_is_one(kvant_command, folder, tmp_path):
    (tmp_path / "lengths.csv").write_text("1000,1\n")
    out = kvant_command("plan", str(folder), "--on", "h100", "--histogram", str(tmp_path / "lengths.csv")).out
    assert "(1 request): 1,000 tokens" in " ".join(out.split())


def test_a_histogram_and_saved_metrics_are_taken(kvant_command, folder, tmp_path):
    (tmp_path / "lengths.csv").write_text("tokens,requests\n1000,90\n30000,10\n")
    out = kvant_command("plan", str(folder), "--on", "h100", "--histogram", str(tmp_path / "lengths.csv")).out
    assert "(100 requests): 3,900 tokens on average" in " ".join(out.split())
    from tests.plan.test_traffic import registry, saved

    metrics = saved(tmp_path, registry([1000] * 50, [200] * 50))
    out = kvant_command("plan", str(folder), "--on", "h100", "--metrics", metrics).out
    assert "(50 requests): 1,200 tokens on average" in " ".join(out.split())


def test_a_shape_needs_no_model(kvant_command):
    words = [
        "--shape",
        "layers=32,kv_heads=8,head_dim=128,parameters=8e9",
        "--on",
        "h100",
        "--context",
        "8192",
    ]
    result = kvant_command("plan", *words, "--json", "-")
    assert json.loads(result.out)["rows"][0]["token_bytes"] == 131_072
    assert "Limits for lossless" in result.err


def test_a_plan_needs_no_framework(kvant_process, folder):
    after = "print('loaded', [m for m in ('torch', 'vllm', 'transformers') if m in sys.modules])"
    process = kvant_process("plan", str(folder), "--on", "h100", "--context", "8192", after=after)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines()[-1] == "loaded []"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "h100"), "say how long requests are, in one way: --context, --histogram or --metrics"),
        (("--on", "h100", "--context", "1", "--histogram", "x"), "say how long requests are, in one way"),
        (("--context", "8192"), "--on: name the device: l4, "),
        (("--on", "h1000", "--context", "1"), "--on: no device is named 'h1000'; did you mean h100?"),
        (("--on", "h100", "--context", "50000"), "50000 tokens are more than"),
        (("--on", "h100", "--context", "1", "--precision", "int9"), "'int9' is none; did you mean int8"),
        (("--on", "h100", "--context", "1", "--precision", ","), "--precision: names nothing"),
        (("--on", "h100", "--context", "1", "--candidate", "fp4"), "--candidate fp4: is not among bf16, fp8"),
        (("--on", "h100", "--context", "1", "--set", "pu=1"), "'pu' is not assumed; did you mean pue?"),
        (
            ("--on", "h100", "--context", "1", "--block-size", "10"),
            "--block-size 10: must be a multiple of 16",
        ),
        (("--on", "h100", "--context", "1", "--plot", "x.gif"), "--plot x.gif: the name must end in"),
        (
            ("--on", "h100", "--context", "1", "--devices", "6"),
            "32 heads are not divided by 6 ranks; did",
        ),
        (
            ("--on", "h100", "--context", "1", "--max-num-seqs", "4", "--concurrency", "5"),
            "more than --max-num-seqs, 4",
        ),
        (("--on", "h100", "--context", "1", "--shape", "layers=1"), "give a MODEL or --shape, and not both"),
    ],
)
def test_misuse_is_status_2_with_a_hint(kvant_command, folder, words, message):
    result = kvant_command("plan", str(folder), *words)
    assert result.status == 2
    assert result.err.startswith("error: ")
    assert message in result.err


@pytest.mark.parametrize("flag", ["kv-memory-gib", "weights-gib", "overhead-gib", "wait", "demand"])
def test_absurd_numbers_are_refused_before_they_overflow(kvant_command, folder, flag):
    result = kvant_command("plan", str(folder), "--on", "h100", "--context", "1", f"--{flag}", "1e300")
    assert result.status == 2
    assert f"--{flag}" in result.err


def test_a_recipe_is_planned_for_its_model_only(kvant_command, tmp_path):
    from tests.recipes import made

    recipe = made.recipe(tmp_path / "mine")
    shape = {"num_hidden_layers": made.LAYERS, "num_key_value_heads": made.HEADS, "head_dim": made.DIM}
    words = ["--on", "l4", "--context", "4096", "--precision", "bf16", "--recipe", str(recipe)]
    out = kvant_command("plan", str(_write(tmp_path, LLAMA_8B | shape)), *words).out
    assert _table(out)["made"][1] == f"{made.LAYERS * made.HEADS * 2 * (made.DIM + 2):,}"
    other = kvant_command("plan", str(_write(tmp_path, LLAMA_8B)), *words).out
    assert "the recipe is of another model" in " ".join(other.split())
