// The Python module `kvant.kernels._native`: addresses as integers, no framework, no allocation.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "host/dispatch.h"
#include "host/layout.h"
#include "host/plan.h"
#include "host/run.h"

namespace nb = nanobind;
using namespace nb::literals;
using Address = std::uintptr_t;

namespace {

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

kvant::Type type_of(int dtype) {
  if (dtype < 0 || dtype > 2) {
    throw std::invalid_argument("dtype: " + std::to_string(dtype) +
                                " is not 0 (float32), 1 (bfloat16) or 2 (float16)");
  }
  return static_cast<kvant::Type>(dtype);
}

std::vector<std::tuple<std::string, bool, std::string>> isas() {
  std::vector<std::tuple<std::string, bool, std::string>> rows;
  for (const kvant::Isa& isa : kvant::isas()) rows.emplace_back(isa.name, isa.why_not.empty(), isa.why_not);
  return rows;
}

std::int64_t stride_of(const kvant::Layout& layout, std::int64_t stride) {
  if (stride < layout.page_bytes)
    throw std::invalid_argument("page_stride: " + std::to_string(stride) + " is less than a page of " +
                                std::to_string(layout.page_bytes) + " bytes");
  return stride;
}

// The shape of a layer's 16-bit pages must be that of its codes, or addresses would run away.
kvant::ExactPages exact_of(const kvant::Layout& layout, const kvant::Layout* exact, Address kept,
                           std::int64_t num_kept, Address staged, std::int64_t num_staged) {
  if (!exact) return {};
  if (exact->head_dim != layout.head_dim || exact->num_kv_heads != layout.num_kv_heads ||
      exact->block_size != kvant::kTile || exact->key.kind != kvant::Kind::bf16 ||
      exact->value.kind != kvant::Kind::bf16)
    throw std::invalid_argument("exact: 16-bit pages are bf16 pages of one tile with the layer's heads");
  return {exact, at<std::uint8_t>(kept), at<std::uint8_t>(staged), num_kept, num_staged};
}

void encode(const std::string& isa, const kvant::Layout& layout, Address pages, std::int64_t num_blocks,
            std::int64_t page_stride, Address key, Address value, std::int64_t key_stride,
            std::int64_t value_stride, int dtype, Address slots, std::int64_t num_tokens, Address key_signs,
            Address value_signs, Address key_mean, Address key_matrix, Address value_mean, Address value_matrix, const kvant::Layout* exact, Address kept,
            std::int64_t num_kept, Address staged, std::int64_t num_staged, Address exact_pages) {
  const kvant::EncodeCall call = {&layout,       at<std::uint8_t>(pages), stride_of(layout, page_stride),
                                  at<void>(key), at<void>(value),         key_stride,
                                  value_stride,  type_of(dtype),          at<std::int64_t>(slots),
                                  num_tokens,    at<float>(key_signs),    at<float>(value_signs),
                                  at<float>(key_mean), at<float>(key_matrix),
                                  at<float>(value_mean), at<float>(value_matrix),
                                  exact_of(layout, exact, kept, num_kept, staged, num_staged),
                                  at<std::int32_t>(exact_pages)};
  kvant::run_encode(kvant::kernels_of(isa), call, num_blocks);
}

void attend(const std::string& isa, const kvant::Layout& layout, Address pages, std::int64_t num_blocks,
            std::int64_t page_stride, Address query, std::int64_t query_stride, Address out,
            std::int64_t out_stride, int dtype, Address block_table, std::int64_t block_table_stride,
            Address query_start, Address seq_lens, int num_seqs, int num_q_heads, float scale, int window,
            float softcap, Address sinks, Address key_signs, Address value_signs, Address workspace,
            std::int64_t workspace_bytes, bool precise, Address key_query, Address value_mean,
            Address value_output, const kvant::Layout* exact, Address kept,
            std::int64_t num_kept, Address staged, std::int64_t num_staged, int exact_window, Address exact_tiles,
            std::int64_t exact_stride, Address exact_first, Address exact_from, Address exact_sinks,
            int sink_tiles) {
  if (num_q_heads <= 0 || num_q_heads % layout.num_kv_heads) {
    throw std::invalid_argument("num_q_heads: " + std::to_string(num_q_heads) + " is not a multiple of " +
                                std::to_string(layout.num_kv_heads) + " KV heads");
  }
  if (window < 0)
    throw std::invalid_argument("window: " + std::to_string(window) + " is negative (0 = none)");
  if (sinks && value_output)
    throw std::invalid_argument("sinks: a mean that was taken from values cannot be given back beside learnt sinks");
  if (!(softcap >= 0))
    throw std::invalid_argument("softcap: " + std::to_string(softcap) + " is negative (0 = none)");
  const kvant::AttendCall call = {&layout,
                                  at<std::uint8_t>(pages),
                                  stride_of(layout, page_stride),
                                  at<void>(query),
                                  at<void>(out),
                                  query_stride,
                                  out_stride,
                                  type_of(dtype),
                                  at<std::int32_t>(block_table),
                                  block_table_stride,
                                  num_q_heads,
                                  num_q_heads / layout.num_kv_heads,
                                  scale,
                                  window,
                                  softcap,
                                  at<float>(sinks),
                                  at<float>(key_signs),
                                  at<float>(value_signs),
                                  at<float>(key_query),
                                  at<float>(value_mean),
                                  at<float>(value_output),
                                  exact_of(layout, exact, kept, num_kept, staged, num_staged),
                                  exact_window,
                                  at<std::int32_t>(exact_tiles),
                                  exact_stride,
                                  at<std::int32_t>(exact_first),
                                  at<std::int32_t>(exact_from),
                                  at<std::int32_t>(exact_sinks),
                                  sink_tiles,
                                  precise};
  kvant::run_attend(kvant::kernels_of(isa), call, num_blocks, at<std::int32_t>(query_start),
                    at<std::int32_t>(seq_lens), num_seqs, at<void>(workspace), workspace_bytes);
}

void decode_tile(const std::string& isa, const kvant::Layout& layout, Address tile, int side, Address out) {
  if (side != 0 && side != 1)
    throw std::invalid_argument("side: " + std::to_string(side) + " is not 0 (key) or 1 (value)");
  kvant::kernels_of(isa).decode_tile(layout, side == 0 ? layout.key : layout.value, at<std::uint8_t>(tile),
                                     at<float>(out));
}

void rotate(const std::string& isa, Address x, Address y, std::int64_t n, int head_dim, Address signs,
            bool inverse) {
  kvant::kernels_of(isa).rotate(kvant::make_mixing(head_dim), at<float>(x), at<float>(y), n, at<float>(signs),
                                inverse);
}

std::uint32_t read_pages(const std::string& isa, Address pages, std::int64_t page_stride,
                         std::int64_t page_bytes, Address order, std::int64_t count) {
  return kvant::run_read(kvant::kernels_of(isa), at<std::uint8_t>(pages), page_stride, page_bytes,
                         at<std::int32_t>(order), count);
}

}  // namespace

NB_MODULE(_native, m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;

  nb::class_<kvant::SideSpec>(m, "Side").def(
      "__init__",
      [](kvant::SideSpec* self, int kind, int bits, bool asymmetric, bool byte_scale,
         std::vector<double> levels, double step, std::vector<double> signs, double weight, int code_bytes,
         int meta_bytes) {
        new (self)
            kvant::SideSpec{kind,   bits,       asymmetric, byte_scale, std::move(levels), step, std::move(signs),
                            weight, code_bytes, meta_bytes};
      },
      "kind"_a, "bits"_a, "asymmetric"_a, "byte_scale"_a, "levels"_a, "step"_a, "signs"_a, "weight"_a, "code_bytes"_a,
      "meta_bytes"_a);

  nb::class_<kvant::Layout>(m, "Layout")
      .def(
          "__init__",
          [](kvant::Layout* self, const kvant::SideSpec& key, const kvant::SideSpec& value, int head_dim,
             int num_kv_heads, int block_size, int value_codes, int key_meta, int value_meta,
             int tile_bytes) {
            new (self) kvant::Layout(kvant::make_layout(key, value, head_dim, num_kv_heads, block_size,
                                                        value_codes, key_meta, value_meta, tile_bytes));
          },
          "key"_a, "value"_a, "head_dim"_a, "num_kv_heads"_a, "block_size"_a, "value_codes"_a, "key_meta"_a,
          "value_meta"_a, "tile_bytes"_a);

  m.def("isas", &isas);
  m.def("encode", &encode, "isa"_a, "layout"_a, "pages"_a, "num_blocks"_a, "page_stride"_a, "key"_a,
        "value"_a, "key_stride"_a, "value_stride"_a, "dtype"_a, "slots"_a, "num_tokens"_a, "key_signs"_a,
        "value_signs"_a, "key_mean"_a = 0, "key_matrix"_a = 0, "value_mean"_a = 0, "value_matrix"_a = 0, "exact"_a.none() = nb::none(), "kept"_a = 0,
        "num_kept"_a = 0, "staged"_a = 0, "num_staged"_a = 0, "exact_pages"_a = 0, Release());
  m.def("attend", &attend, "isa"_a, "layout"_a, "pages"_a, "num_blocks"_a, "page_stride"_a, "query"_a,
        "query_stride"_a, "out"_a, "out_stride"_a, "dtype"_a, "block_table"_a, "block_table_stride"_a,
        "query_start"_a, "seq_lens"_a, "num_seqs"_a, "num_q_heads"_a, "scale"_a, "window"_a, "softcap"_a,
        "sinks"_a, "key_signs"_a, "value_signs"_a, "workspace"_a, "workspace_bytes"_a,
        "precise"_a = false, "key_query"_a = 0, "value_mean"_a = 0, "value_output"_a = 0, "exact"_a.none() = nb::none(), "kept"_a = 0, "num_kept"_a = 0, "staged"_a = 0,
        "num_staged"_a = 0, "exact_window"_a = 0, "exact_tiles"_a = 0, "exact_stride"_a = 0, "exact_first"_a = 0,
        "exact_from"_a = 0, "exact_sinks"_a = 0, "sink_tiles"_a = 0, Release());
  m.def("workspace_bytes", &kvant::workspace_bytes, "layout"_a, "num_q_heads"_a, "max_tokens"_a,
        "max_seq_len"_a, "max_seqs"_a);
  m.def("read_pages", &read_pages, "isa"_a, "pages"_a, "page_stride"_a, "page_bytes"_a, "order"_a, "count"_a,
        Release());
  m.def("decode_tile", &decode_tile, "isa"_a, "layout"_a, "tile"_a, "side"_a, "out"_a);
  m.def("rotate", &rotate, "isa"_a, "x"_a, "y"_a, "n"_a, "head_dim"_a, "signs"_a, "inverse"_a);
}
