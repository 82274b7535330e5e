"""The compiled kernels: addresses in, nothing out. Use `kvant.kernels.PagedAttention`."""

class Side:
    def __init__(
        self,
        kind: int,
        bits: int,
        asymmetric: bool,
        byte_scale: bool,
        levels: list[float],
        step: float,
        signs: list[float],
        weight: float,
        code_bytes: int,
        meta_bytes: int,
    ) -> None: ...

class Layout:
    def __init__(
        self,
        key: Side,
        value: Side,
        head_dim: int,
        num_kv_heads: int,
        block_size: int,
        value_codes: int,
        key_meta: int,
        value_meta: int,
        tile_bytes: int,
    ) -> None: ...

def isas() -> list[tuple[str, bool, str]]: ...
def encode(
    isa: str,
    layout: Layout,
    pages: int,
    num_blocks: int,
    page_stride: int,
    key: int,
    value: int,
    key_stride: int,
    value_stride: int,
    dtype: int,
    slots: int,
    num_tokens: int,
    key_signs: int,
    value_signs: int,
    key_mean: int = 0,
    key_matrix: int = 0,
    value_mean: int = 0,
    value_matrix: int = 0,
    exact: Layout | None = None,
    kept: int = 0,
    num_kept: int = 0,
    staged: int = 0,
    num_staged: int = 0,
    exact_pages: int = 0,
) -> None: ...
def attend(
    isa: str,
    layout: Layout,
    pages: int,
    num_blocks: int,
    page_stride: int,
    query: int,
    query_stride: int,
    out: int,
    out_stride: int,
    dtype: int,
    block_table: int,
    block_table_stride: int,
    query_start: int,
    seq_lens: int,
    num_seqs: int,
    num_q_heads: int,
    scale: float,
    window: int,
    softcap: float,
    sinks: int,
    key_signs: int,
    value_signs: int,
    workspace: int,
    workspace_bytes: int,
    precise: bool = False,
    key_query: int = 0,
    value_mean: int = 0,
    value_output: int = 0,
    exact: Layout | None = None,
    kept: int = 0,
    num_kept: int = 0,
    staged: int = 0,
    num_staged: int = 0,
    exact_window: int = 0,
    exact_tiles: int = 0,
    exact_stride: int = 0,
    exact_first: int = 0,
    exact_from: int = 0,
    exact_sinks: int = 0,
    sink_tiles: int = 0,
) -> None: ...
def workspace_bytes(
    layout: Layout, num_q_heads: int, max_tokens: int, max_seq_len: int, max_seqs: int
) -> int: ...
def read_pages(isa: str, pages: int, page_stride: int, page_bytes: int, order: int, count: int) -> int: ...
def decode_tile(isa: str, layout: Layout, tile: int, side: int, out: int) -> None: ...
def rotate(isa: str, x: int, y: int, n: int, head_dim: int, signs: int, inverse: bool) -> None: ...
