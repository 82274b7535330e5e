// The native kernels as a program, for processors that are emulated and run no Python. `machine.py` is
// the other end.
//
// Requests come from stdin, answers go to stdout. A request is the name of an operation and its
// arguments; an answer is what was refused (empty if nothing was) and the results. Each of them is a
// length in 8 bytes and as many bytes.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../../src/kvant/kernels/native/host/dispatch.h"
#include "../../../src/kvant/kernels/native/host/layout.h"
#include "../../../src/kvant/kernels/native/host/plan.h"
#include "../../../src/kvant/kernels/native/host/run.h"

namespace {

std::vector<std::uint8_t> results;

void need(void* to, std::size_t bytes) {
  if (std::fread(to, 1, bytes, stdin) == bytes) return;
  std::fputs("driver: the request ends early\n", stderr);
  std::exit(2);
}

template <class T>
std::vector<T> array() {
  std::uint64_t bytes;
  need(&bytes, 8);
  std::vector<T> r(bytes / sizeof(T));
  need(r.data(), r.size() * sizeof(T));
  return r;
}

template <class T>
T number() {
  return array<T>().at(0);
}

std::string text() {
  const auto bytes = array<char>();
  return {bytes.begin(), bytes.end()};
}

template <class T>
T* or_null(std::vector<T>& x) {
  return x.empty() ? nullptr : x.data();
}

void add(std::vector<std::uint8_t>& to, const void* from, std::uint64_t bytes) {
  const auto append = [&](const void* at, std::size_t n) {
    to.resize(to.size() + n);
    if (n) std::memcpy(to.data() + to.size() - n, at, n);
  };
  append(&bytes, 8);
  append(from, bytes);
}

template <class T>
void result(const std::vector<T>& x) {
  add(results, x.data(), x.size() * sizeof(T));
}

kvant::SideSpec side() {
  const auto n = array<std::int32_t>();
  kvant::SideSpec spec;
  spec.kind = n.at(0), spec.bits = n.at(1), spec.asymmetric = n.at(2), spec.byte_scale = n.at(3);
  spec.code_bytes = n.at(4), spec.meta_bytes = n.at(5);
  spec.step = number<double>();
  spec.weight = number<double>();
  spec.levels = array<double>();
  spec.signs = array<double>();
  return spec;
}

kvant::Layout layout() {
  const kvant::SideSpec key = side(), value = side();
  const auto n = array<std::int32_t>();
  return kvant::make_layout(key, value, n.at(0), n.at(1), n.at(2), n.at(3), n.at(4), n.at(5), n.at(6));
}

// Tiles in 16 bits, where the other end has any.
struct Tiles {
  std::vector<kvant::Layout> layout;
  std::vector<std::uint8_t> kept, staged;

  Tiles() {
    if (number<std::int64_t>()) layout.push_back(::layout());
    kept = array<std::uint8_t>();
    staged = array<std::uint8_t>();
  }
  kvant::ExactPages pages() {
    if (layout.empty()) return {};
    const auto size = layout[0].page_bytes;
    return {layout.data(), kept.data(), staged.data(), static_cast<std::int64_t>(kept.size()) / size,
            static_cast<std::int64_t>(staged.size()) / size};
  }
};

// Arguments are read to the last before anything can be refused.
void encode() {
  const std::string isa = text();
  const kvant::Layout pages_layout = layout();
  auto pages = array<std::uint8_t>();
  const auto n = array<std::int64_t>();
  auto key = array<std::uint8_t>(), value = array<std::uint8_t>();
  auto slots = array<std::int64_t>();
  auto key_signs = array<float>(), value_signs = array<float>();
  auto key_mean = array<float>(), key_matrix = array<float>();
  auto value_mean = array<float>(), value_matrix = array<float>();
  Tiles tiles;
  const auto exact_pages = array<std::int32_t>();
  const kvant::EncodeCall call = {&pages_layout, pages.data(), n.at(1),
                                  key.data(),    value.data(), n.at(2),
                                  n.at(3),       static_cast<kvant::Type>(n.at(4)),
                                  slots.data(),  static_cast<std::int64_t>(slots.size()),
                                  or_null(key_signs), or_null(value_signs),
                                  or_null(key_mean), or_null(key_matrix),
                                  or_null(value_mean), or_null(value_matrix),
                                  tiles.pages(), exact_pages.data()};
  kvant::run_encode(kvant::kernels_of(isa), call, n.at(0));
  result(pages);
  result(tiles.kept);
  result(tiles.staged);
}

void attend() {
  const std::string isa = text();
  const kvant::Layout pages_layout = layout();
  const auto pages = array<std::uint8_t>();
  const auto n = array<std::int64_t>();
  const auto x = array<float>();
  const auto query = array<std::uint8_t>();
  auto out = array<std::uint8_t>();
  const auto table = array<std::int32_t>(), starts = array<std::int32_t>(), lengths = array<std::int32_t>();
  auto sinks = array<float>(), key_signs = array<float>(), value_signs = array<float>();
  auto key_query = array<float>(), value_mean = array<float>(), value_output = array<float>();
  Tiles tiles;
  const auto exact_tiles = array<std::int32_t>(), first = array<std::int32_t>(), from = array<std::int32_t>();
  const auto leading = array<std::int32_t>();
  const int heads = static_cast<int>(n.at(6));
  const kvant::AttendCall call = {&pages_layout,
                                  pages.data(),
                                  n.at(1),
                                  query.data(),
                                  out.data(),
                                  n.at(2),
                                  n.at(3),
                                  static_cast<kvant::Type>(n.at(4)),
                                  table.data(),
                                  n.at(5),
                                  heads,
                                  heads / pages_layout.num_kv_heads,
                                  x.at(0),
                                  static_cast<int>(n.at(7)),
                                  x.at(1),
                                  or_null(sinks),
                                  or_null(key_signs),
                                  or_null(value_signs),
                                  or_null(key_query),
                                  or_null(value_mean),
                                  or_null(value_output),
                                  tiles.pages(),
                                  static_cast<int>(n.at(10)),
                                  exact_tiles.data(),
                                  n.at(11),
                                  first.data(),
                                  from.data(),
                                  leading.data(),
                                  static_cast<int>(n.at(12)),
                                  n.at(9) != 0};
  std::vector<std::uint8_t> workspace(n.at(8), 0xFF);
  kvant::run_attend(kvant::kernels_of(isa), call, n.at(0), starts.data(), lengths.data(),
                    static_cast<int>(lengths.size()), workspace.data(), n.at(8));
  result(out);
}

void decode_tile() {
  const std::string isa = text();
  const kvant::Layout pages_layout = layout();
  const auto tile = array<std::uint8_t>();
  const kvant::Side& which = number<std::int64_t>() ? pages_layout.value : pages_layout.key;
  std::vector<float> out(kvant::kTile * pages_layout.head_dim);
  kvant::kernels_of(isa).decode_tile(pages_layout, which, tile.data(), out.data());
  result(out);
}

void workspace_bytes() {
  const kvant::Layout pages_layout = layout();
  const auto n = array<std::int64_t>();
  result<std::int64_t>({kvant::workspace_bytes(pages_layout, static_cast<int>(n.at(0)), n.at(1), n.at(2), n.at(3))});
}

// A line for each: its name, a tab, and why it cannot run here.
void isas() {
  std::string lines;
  for (const kvant::Isa& isa : kvant::isas()) lines += isa.name + "\t" + isa.why_not + "\n";
  result(std::vector<char>(lines.begin(), lines.end()));
}

}  // namespace

int main() {
  for (int next; (next = std::getchar()) != EOF;) {
    std::ungetc(next, stdin);
    const std::string operation = text();
    std::string refusal;
    results.clear();
    try {
      if (operation == "encode") encode();
      else if (operation == "attend") attend();
      else if (operation == "decode_tile") decode_tile();
      else if (operation == "workspace_bytes") workspace_bytes();
      else if (operation == "isas") isas();
      else return 3;
    } catch (const std::invalid_argument& error) {
      refusal = error.what();
    }
    std::vector<std::uint8_t> answer;
    add(answer, refusal.data(), refusal.size());
    answer.insert(answer.end(), results.begin(), results.end());
    const std::uint64_t size = answer.size();
    std::fwrite(&size, 8, 1, stdout);
    std::fwrite(answer.data(), 1, size, stdout);
    std::fflush(stdout);
  }
}
