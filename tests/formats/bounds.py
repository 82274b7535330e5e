"""Named error bounds of every format: mean squared error relative to the signal, Gaussian vectors.

Lloyd-Max's known distortions for a normal variable are .1175, .0345 and .0095 at 2, 3 and 4 bits; the
jl residual leaves (pi/2 - 1) of them; recursive polar angles are about a 3-bit quantiser; a trellis of 256
states has about two thirds of them.
"""

from kvant.formats import KEY_FORMATS

DISTORTION = {
    "bf16": 4e-6,
    "int8": 6e-5,
    "int8-asym": 5e-5,
    "int4": 0.016,
    "int4-asym": 0.0115,
    "codebook4": 0.00975,
    "codebook3": 0.0352,
    "codebook2": 0.1190,
    "codebook4-byte": 0.0100,
    "codebook3-byte": 0.0356,
    "codebook2-byte": 0.1200,
    "codebook4+jl": 0.0057,
    "codebook3+jl": 0.0203,
    "codebook2+jl": 0.0690,
    "polar": 0.0345,
    "trellis4": 0.0058,
    "trellis3": 0.0212,
    "trellis2": 0.0785,
}
assert DISTORTION.keys() == KEY_FORMATS.keys(), "a format without a bound, or a bound without a format"
