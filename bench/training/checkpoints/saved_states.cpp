#include "bench/training/checkpoints/saved_states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/training/checkpoints/step_folder.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline::training {
namespace {

constexpr std::size_t kMostPieces = 1 << 14;  // of one tensor

bool overlap(const TensorPiece& a, const TensorPiece& b) {
  return a.row < b.row + b.rows && b.row < a.row + a.rows && a.col < b.col + b.cols && b.col < a.col + a.cols;
}

bool before(const TensorPiece& a, const TensorPiece& b) {
  return a.row != b.row ? a.row < b.row : a.col < b.col;
}

}  // namespace

SavedStates::SavedStates(const std::string& folder, int shards) : folder_(folder) {
  files_.reserve(static_cast<std::size_t>(shards));
  for (int shard = 0; shard < shards; ++shard) add_shard(shard_path(folder, shard));
  for (auto& [key, whole] : tensors_) {
    std::sort(whole.pieces.begin(), whole.pieces.end(),
              [](const Stored& a, const Stored& b) { return before(a.piece, b.piece); });
  }
  check_whole();
}

void SavedStates::add_shard(const std::string& file) {
  const TensorFile& shard = files_.emplace_back(file);
  for (const std::string& name : shard.names()) {
    const StoredTensor& values = shard.get(name);
    std::optional<StatePiece> found = parse_shard_name(name);
    const auto refuse = [&](const char* what) {
      throw InputError(fmt::format("{}: tensor \"{}\": {}", file, printable(name, 200), what));
    };
    if (!found) refuse("not a piece of a training state, expected STATE|ROWSxCOLS|ROW:END|COL:END|NAME");
    TensorPiece& piece = found->piece;
    if (values.type != StoredType::fp32 || values.shape != std::vector{piece.rows, piece.cols})
      refuse("its type or shape is not that of its name, expected F32 of as many rows and columns");
    Whole& whole = tensors_[{found->state, piece.tensor}];
    if (!whole.pieces.empty()) {
      const TensorPiece& other = whole.pieces.front().piece;
      if (other.tensor_rows != piece.tensor_rows || other.tensor_cols != piece.tensor_cols)
        refuse("another piece of the same tensor has another whole shape");
    }
    if (whole.pieces.size() == kMostPieces) refuse("too many pieces of one tensor");
    whole.elements += piece.elements();
    whole.pieces.push_back({std::move(piece), &values});
  }
}

void SavedStates::check_whole() const {
  for (const auto& [key, whole] : tensors_) {
    const auto& pieces = whole.pieces;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      for (std::size_t j = i + 1; j < pieces.size(); ++j) {
        const TensorPiece& a = pieces[i].piece;
        const TensorPiece& b = pieces[j].piece;
        if (b.row >= a.row + a.rows) break;  // so is every later one
        if (overlap(a, b)) {
          throw InputError(fmt::format("{}: {} of {} is there twice from row {}, column {}", folder_,
                                       key.first, printable(key.second, 200), b.row, b.col));
        }
      }
    }
    const TensorPiece& any = pieces.front().piece;
    std::int64_t expected = 0;
    if (__builtin_mul_overflow(any.tensor_rows, any.tensor_cols, &expected) || whole.elements != expected) {
      throw InputError(fmt::format("{}: {} of {} has {} elements in all shards, expected {} x {}", folder_,
                                   key.first, printable(key.second, 200), whole.elements, any.tensor_rows,
                                   any.tensor_cols));
    }
  }
}

void SavedStates::read(const std::string& state, const TensorPiece& wanted, float* out) const {
  const auto found = tensors_.find({state, wanted.tensor});
  if (found == tensors_.end()) {
    throw InputError(
        fmt::format("{}: there is no {} of {}, which this run goes on from", folder_, state, wanted.tensor));
  }
  const std::vector<Stored>& pieces = found->second.pieces;
  const TensorPiece& any = pieces.front().piece;
  if (any.tensor_rows != wanted.tensor_rows || any.tensor_cols != wanted.tensor_cols) {
    throw InputError(fmt::format("{}: {} of {} is {} x {}, expected {} x {}", folder_, state, wanted.tensor,
                                 any.tensor_rows, any.tensor_cols, wanted.tensor_rows, wanted.tensor_cols));
  }
  for (const auto& [piece, values] : pieces) {
    if (!overlap(piece, wanted)) continue;
    const std::int64_t row_end = std::min(piece.row + piece.rows, wanted.row + wanted.rows);
    const std::int64_t col = std::max(piece.col, wanted.col);
    const std::int64_t cols = std::min(piece.col + piece.cols, wanted.col + wanted.cols) - col;
    for (std::int64_t row = std::max(piece.row, wanted.row); row < row_end; ++row) {
      const std::int64_t from = (row - piece.row) * piece.cols + col - piece.col;
      std::memcpy(out + (row - wanted.row) * wanted.cols + col - wanted.col,
                  values->bytes.data() + static_cast<std::size_t>(from) * sizeof(float),
                  static_cast<std::size_t>(cols) * sizeof(float));
    }
  }
}

}  // namespace plumbline::training
