#include "bench/convert/pieces.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.hpp"
#include "core/tensor/half_floats.hpp"

namespace plumbline::convert {
namespace {

constexpr std::int64_t kChunkBytes = std::int64_t{4} << 20;

/// The part of `block` that `held` has, as a piece of the tensor that the block is in.
bool cut_piece(const Block& block, const HeldTensor& held, const Block& has, Piece& piece) {
  const std::int64_t row = std::max(block.row, has.row);
  const std::int64_t col = std::max(block.col, has.col);
  piece.rows = std::min(block.row + block.rows, has.row + has.rows) - row;
  piece.cols = std::min(block.col + block.cols, has.col + has.cols) - col;
  if (piece.rows <= 0 || piece.cols <= 0) return false;
  piece.at_row = block.at_row + row - block.row;
  piece.at_col = block.at_col + col - block.col;
  const std::int64_t from_row = has.at_row + row - has.row;
  const std::int64_t from_col = has.at_col + col - has.col;
  piece.row_stride = held.layout.transposed ? 1 : held.layout.cols;
  piece.col_stride = held.layout.transposed ? held.layout.rows : 1;
  piece.first = from_row * piece.row_stride + from_col * piece.col_stride;
  piece.from = held.stored.bytes.data() + piece.first * size_of(held.stored.type);
  if (!held.stored.scales.empty()) piece.dequantized = &held.stored;
  return true;
}

void transpose(Piece& piece) {
  std::swap(piece.row_stride, piece.col_stride);
  std::swap(piece.at_row, piece.at_col);
  std::swap(piece.rows, piece.cols);
}

template <class Element>
void gather(const Piece& piece, std::int64_t row, std::byte* to) {
  const std::byte* from = piece.from + row * piece.row_stride * std::int64_t{sizeof(Element)};
  for (std::int64_t col = 0; col < piece.cols; ++col) {
    std::memcpy(to + col * std::int64_t{sizeof(Element)},
                from + col * piece.col_stride * std::int64_t{sizeof(Element)}, sizeof(Element));
  }
}

void dequantize(const Piece& piece, std::int64_t row, std::byte* to) {
  const std::int64_t first = piece.first + row * piece.row_stride;
  for (std::int64_t col = 0; col < piece.cols; ++col) {
    const std::uint16_t value = to_bf16(piece.dequantized->at(first + col * piece.col_stride));
    std::memcpy(to + col * std::int64_t{sizeof(value)}, &value, sizeof(value));
  }
}

/// Rows [begin, end) of the tensor that the piece has, into a buffer that begins with row `begin`.
void copy_rows(const PlannedTensor& tensor, const Piece& piece, std::int64_t begin, std::int64_t end,
               std::byte* to) {
  const std::int64_t size = size_of(tensor.type);
  const std::int64_t first = std::max(begin, piece.at_row);
  const std::int64_t last = std::min(end, piece.at_row + piece.rows);
  for (std::int64_t row = first; row < last; ++row) {
    std::byte* const place = to + ((row - begin) * tensor.cols + piece.at_col) * size;
    const std::int64_t in_piece = row - piece.at_row;
    if (piece.dequantized != nullptr) {
      dequantize(piece, in_piece, place);
    } else if (piece.col_stride == 1) {
      std::memcpy(place, piece.from + in_piece * piece.row_stride * size,
                  static_cast<std::size_t>(piece.cols * size));
    } else if (size == 2) {
      gather<std::uint16_t>(piece, in_piece, place);
    } else {
      gather<std::uint32_t>(piece, in_piece, place);
    }
  }
}

/// True if the piece's rows are rows of the tensor, one after the other in the source.
bool is_straight(const PlannedTensor& tensor, const Piece& piece) {
  return piece.dequantized == nullptr && piece.cols == tensor.cols &&
         (piece.col_stride == 1 || piece.cols == 1) && piece.row_stride == tensor.cols;
}

}  // namespace

PlannedTensor plan_tensor(const TensorLayout& wanted, const Checkpoint& source) {
  PlannedTensor planned;
  planned.name = wanted.name;
  planned.shape = wanted.shape();
  planned.rows = wanted.transposed ? wanted.cols : wanted.rows;
  planned.cols = wanted.transposed ? wanted.rows : wanted.cols;
  const HeldTensor* first = nullptr;
  for (const Block& block : wanted.blocks) {
    std::int64_t area = 0;
    const auto places = source.places.find(block.of);
    if (places == source.places.end()) throw Error(fmt::format("the checkpoint lacks {}", block.of));
    for (const HeldBlock& place : places->second) {
      const HeldTensor& held = source.tensors[place.tensor];
      Piece piece;
      if (!cut_piece(block, held, source.block(place), piece)) continue;
      if (first == nullptr) first = &held;
      if (held.stored.value_type() != first->stored.value_type()) {
        throw InputError(
            fmt::format("{}: tensor {} is {}, but {} of {} is {}; expected one type for what becomes {}",
                        held.file, held.layout.name, name_of(held.stored.type), first->layout.name,
                        first->file, name_of(first->stored.type), wanted.name));
      }
      area += piece.rows * piece.cols;
      if (wanted.transposed) transpose(piece);
      planned.pieces.push_back(piece);
      if (planned.sources.empty() || planned.sources.back().data() != held.stored.bytes.data())
        planned.sources.push_back(held.stored.bytes);
    }
    if (area != block.rows * block.cols)
      throw Error(fmt::format("the checkpoint lacks a part of {}", block.of));
  }
  if (first == nullptr && !wanted.type_of.empty()) {
    const auto places = source.places.find(wanted.type_of);
    if (places != source.places.end()) first = &source.tensors[places->second.front().tensor];
  }
  if (first == nullptr) throw Error(fmt::format("nothing of the checkpoint becomes {}", wanted.name));
  planned.type = first->stored.value_type();
  std::stable_sort(planned.pieces.begin(), planned.pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.at_row < b.at_row; });
  return planned;
}

void stream_tensor(const PlannedTensor& tensor, const std::function<void(std::span<const std::byte>)>& sink) {
  const std::int64_t row_bytes = tensor.cols * size_of(tensor.type);
  const std::int64_t step = std::clamp<std::int64_t>(kChunkBytes / row_bytes, 1, tensor.rows);
  std::int64_t covered = 0;
  for (const Piece& piece : tensor.pieces) covered += piece.rows * piece.cols;
  const bool gaps = covered < tensor.rows * tensor.cols;
  std::vector<std::byte> buffer;
  std::size_t done = 0;  // pieces that end above the current row
  for (std::int64_t row = 0; row < tensor.rows;) {
    while (done < tensor.pieces.size() && tensor.pieces[done].at_row + tensor.pieces[done].rows <= row)
      ++done;
    const Piece* const here = done < tensor.pieces.size() ? &tensor.pieces[done] : nullptr;
    if (here != nullptr && here->at_row <= row && is_straight(tensor, *here)) {
      const std::int64_t end = std::min(row + step, here->at_row + here->rows);
      const std::span<const std::byte> rows(here->from + (row - here->at_row) * row_bytes,
                                            static_cast<std::size_t>((end - row) * row_bytes));
      sink(rows);
      row = end;
      continue;
    }
    const std::int64_t end = std::min(row + step, tensor.rows);
    buffer.resize(static_cast<std::size_t>((end - row) * row_bytes));
    if (gaps) std::fill(buffer.begin(), buffer.end(), std::byte{0});
    for (std::size_t i = done; i < tensor.pieces.size() && tensor.pieces[i].at_row < end; ++i)
      copy_rows(tensor, tensor.pieces[i], row, end, buffer.data());
    sink(buffer);
    row = end;
  }
  for (const std::span<const std::byte> source : tensor.sources) forget_pages(source);
}

}  // namespace plumbline::convert
