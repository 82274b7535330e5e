"""The levels of the trellis formats: 256 integers that fit int8, times a step; level[s ^ 128] = -level[s].

Found by Lloyd's algorithm on normal vectors (`fit`) from random levels: 2 bits by `fit`, 500 rounds of 1,000
vectors and 20 of 10,000; 3 and 4 bits by its twin in floats, 500 rounds of 2,500, rounded at the end (under
.4 % lost). Local minima differ by a few percent, so these are the best of several seeds. The symmetry costs
nothing that could be measured and halves the table that kernels look into.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvant.formats import columns, viterbi
from kvant.formats.scales import from_byte, to_byte

LEVELS: dict[int, str] = {
    2: (
        "265bf3b713d7f736f306d021d110f83921d1e90006f053278cc514ee1e436fed"
        "d545f614f1b22a14a7d610f3f24715d20a2bf4d5f8da19b12103ecd01036eecb"
        "fae03710be0e2aedc824f55009cf2cef520eb2da2a34ea08f01643c8ffe91ac1"
        "05fad52cd81804461cf8d99738f0c40fd30e2ff5daf9b11a43de9e0c70f0c010"
    ),
    3: (
        "0a1dfde9c7d8eeae2fda0efb4a1cc7eb425ad4fbee092ce249fbaeecd22510de"
        "236ce2f616fe0bcff60633eb17d0dcbdf912ebc224170531103ade27f5c61f04"
        "bdac33d1fa0e21e506bae4d37df611f81928a8e4063cf3c328da39051bebfa11"
        "cd38f0e02518fd091bec03472db763d7f2ff3ed45825e40dfc17ed34c5084b9a"
    ),
    4: (
        "f2072f22ea023d290f18dbe54bd1fbc1cee4f112f62807feeb0c05b91ba8c4dd"
        "4411b5f6d18e2218362bfedb08eb5dadd74f202de1b919cd0811367fec25f4fe"
        "20d939ea46e1ee0952cae504fd0f30f5e6d0bf3b110b02f01dfbb4a7d8c72962"
        "f84217fec5350ee02b1e0b98230515d2ebc9f91dfd142f3f0325ef0f0be4de18"
    ),
}
"""Levels 0 to 127 as bytes, in hex."""

STEPS = {2: 0.0225, 3: 0.025, 4: 0.0265}
"""Step in units of the rms: 127 of them hold the largest level, and the search's metric is made for them."""


def integer_levels(bits: int) -> NDArray[np.int8]:
    """The 256 integer levels by state."""
    half = np.frombuffer(bytes.fromhex(LEVELS[bits]), np.int8)
    return np.concatenate((half, -half))


def fit(bits: int, half: NDArray[np.float32], seed: int, rounds: int, vectors: int) -> NDArray[np.float64]:
    """Levels 0 to 127 in units of the rms after `rounds` of Lloyd's algorithm from `half`.

    Each round encodes `vectors` of 64 normal values and moves every level to the mean of what it stood for.
    """
    rng = np.random.default_rng(seed)
    moved = half.astype(np.float64)
    for _ in range(rounds):
        integers = np.rint(np.clip(np.concatenate((moved, -moved)) / STEPS[bits], -127, 127)).astype(np.int64)
        x = rng.standard_normal((vectors, 64)).astype(np.float32)
        x = columns.walk(x / from_byte(to_byte(np.sqrt((x * x).mean(axis=-1))))[:, None])
        rows = viterbi.quantise(x, STEPS[bits], bits)
        states = viterbi.states(viterbi.search(rows, viterbi.distances(integers, bits), bits), bits).reshape(
            -1
        )
        total = np.bincount(states, x.reshape(-1), viterbi.STATES)
        count = np.bincount(states, minlength=viterbi.STATES)
        both = count[:128] + count[128:]
        moved = np.where(both > 0, (total[:128] - total[128:]) / np.maximum(1, both), moved)
    return moved
