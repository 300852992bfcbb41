#include "bench/training/checkpoints/shard_names.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace plumbline::training {
namespace {

constexpr std::int64_t kMostOfASide = std::int64_t{1} << 40;

/// "a<separator>b", both from 0; nothing else may follow.
bool read_pair(std::string_view text, char separator, std::int64_t& a, std::int64_t& b) {
  const char* const stop = text.data() + text.size();
  const auto first = std::from_chars(text.data(), stop, a);
  if (first.ec != std::errc() || first.ptr == stop || *first.ptr != separator) return false;
  const auto second = std::from_chars(first.ptr + 1, stop, b);
  return second.ec == std::errc() && second.ptr == stop && a >= 0 && b >= 0 && a <= kMostOfASide &&
         b <= kMostOfASide;
}

}  // namespace

std::string shard_name(std::string_view state, const TensorPiece& piece) {
  return fmt::format("{}|{}x{}|{}:{}|{}:{}|{}", state, piece.tensor_rows, piece.tensor_cols, piece.row,
                     piece.row + piece.rows, piece.col, piece.col + piece.cols, piece.tensor);
}

std::optional<StatePiece> parse_shard_name(std::string_view name) {
  std::array<std::string_view, 4> fields;
  for (std::string_view& field : fields) {
    const std::size_t bar = name.find('|');
    if (bar == std::string_view::npos) return std::nullopt;
    field = name.substr(0, bar);
    name.remove_prefix(bar + 1);
  }
  StatePiece found;
  TensorPiece& piece = found.piece;
  std::int64_t row_end = 0;
  std::int64_t col_end = 0;
  if (!read_pair(fields[1], 'x', piece.tensor_rows, piece.tensor_cols) ||
      !read_pair(fields[2], ':', piece.row, row_end) || !read_pair(fields[3], ':', piece.col, col_end)) {
    return std::nullopt;
  }
  if (fields[0].empty() || name.empty()) return std::nullopt;
  if (piece.row >= row_end || row_end > piece.tensor_rows) return std::nullopt;
  if (piece.col >= col_end || col_end > piece.tensor_cols) return std::nullopt;
  found.state = fields[0];
  piece.tensor = name;
  piece.rows = row_end - piece.row;
  piece.cols = col_end - piece.col;
  return found;
}

}  // namespace plumbline::training
