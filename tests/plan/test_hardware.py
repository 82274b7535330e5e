"""The catalogue, and a user's own."""

from __future__ import annotations

import pytest

from kvant.errors import ConfigError
from kvant.plan import hardware

MINE = (
    "devices:\n  mine: {{summary: mine, kind: gpu, memory_gib: {}, bandwidth_gb_s: 900, watts: 300, "
    "price_per_hour: 1}}\n"
)


def test_own_devices_are_added_and_take_the_place_of_ours(tmp_path):
    file = tmp_path / "hardware.yaml"
    file.write_text(MINE.format(48) + MINE.format(96).partition("\n")[2].replace("mine:", "h100:", 1))
    found = hardware.devices(file)
    assert (found["mine"].memory_gib, found["h100"].memory_gib) == (48, 96)
    assert found["l4"] == hardware.devices()["l4"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("memory_gib: 48", "memory: 48"),
            "hardware.yaml:2: devices.mine.memory: unknown field; did you mean memory_gib",
        ),
        (("memory_gib: 48", "memory_gib: lots"), "hardware.yaml:2: devices.mine.memory_gib"),
        (("memory_gib: 48", "memory_gib: 0"), "hardware.yaml:2: devices.mine.memory_gib"),
        (("watts: 300, ", ""), "hardware.yaml:2: devices.mine.watts: is missing"),
        (("kind: gpu", "kind: tpu"), "hardware.yaml:2: devices.mine.kind"),
        (("devices", "device"), "hardware.yaml:1: device: unknown field; did you mean devices"),
    ],
)
def test_a_wrong_catalogue_is_named_with_its_line(tmp_path, change, message):
    file = tmp_path / "hardware.yaml"
    file.write_text(MINE.format(48).replace(*change))
    with pytest.raises(ConfigError, match=message):
        hardware.devices(file)


def test_a_device_is_suggested():
    with pytest.raises(ConfigError, match=r"--on: no device is named 'H100x'; did you mean h100\? known: l4"):
        hardware.find("H100x", hardware.devices())


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        hardware.devices(tmp_path / "none.yaml")
