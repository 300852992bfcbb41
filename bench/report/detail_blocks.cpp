#include "bench/report/detail_blocks.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bench/report/escape.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

/// A browser inflates and parses a block in a few milliseconds; larger blocks compress little better.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

std::vector<std::uint8_t> deflated(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::vector<std::uint8_t> packed(size);
  if (compress2(packed.data(), &size, reinterpret_cast<const Bytef*>(text.data()), text.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK)
    throw Error("the page's details cannot be compressed: out of memory");
  packed.resize(size);
  return packed;
}

}  // namespace

OrderedJson DetailBlocks::add(const OrderedJson& details) {
  if (open_.size() >= kBlockBytes) close();
  open_ += (held_ > 0 ? "," : "") + output_json(details, -1);
  return {blocks_, held_++};
}

std::string DetailBlocks::take() {
  if (held_ > 0) close();
  return std::move(html_);
}

void DetailBlocks::close() {
  html_ += fmt::format("<script type=\"text/plain\" id=\"details-{}\">{}</script>\n", blocks_++,
                       base64(deflated("[" + open_ + "]")));
  open_.clear();
  held_ = 0;
}

}  // namespace plumbline
