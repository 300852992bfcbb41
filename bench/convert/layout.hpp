// Placement of the model's own tensors in a checkpoint's tensors. Every rule between two formats is a matter
// of rectangles. So a format is a list of them, and converting is cutting one list by the other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/model_config.hpp"

namespace plumbline::convert {

/// A rectangle of one of the model's own tensors in a tensor of a checkpoint. The model's own are named as in
/// "layers.3.query.weight", in (out, in) orientation; a vector is a column.
struct Block {
  std::string of;
  std::int64_t row = 0;  // in the model's own
  std::int64_t col = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t at_row = 0;  // in the checkpoint's
  std::int64_t at_col = 0;
  bool padding = false;  // a copy that fills up; nothing is read from it
};

/// A tensor of a checkpoint; parts outside all blocks are zero.
struct TensorLayout {
  std::string name;
  std::string also = "";  // another name that some checkpoints have for it
  std::int64_t rows = 0;  // (out, in), before `transposed` applies
  std::int64_t cols = 1;
  bool vector = false;      // one-dimensional
  bool transposed = false;  // stored as (in, out)
  std::vector<Block> blocks;
  std::string type_of = "";  // the model's own tensor whose type it has, should no block be left of it

  std::vector<std::int64_t> shape() const {
    if (vector) return {rows};
    return transposed ? std::vector{cols, rows} : std::vector{rows, cols};
  }
};

/// Puts blocks below each other.
class TensorBuilder {
 public:
  TensorBuilder(std::string name, std::int64_t cols, std::string also = "");
  TensorBuilder& rows(const std::string& of, std::int64_t row, std::int64_t count);
  /// A vector where `cols` is 0.
  TensorLayout done() { return std::move(tensor_); }

 private:
  TensorLayout tensor_;
};

/// Rows [first, first + count) of a tensor as a tensor, or its columns.
TensorLayout cut_rows(const TensorLayout& tensor, std::int64_t first, std::int64_t count);
TensorLayout cut_cols(const TensorLayout& tensor, std::int64_t first, std::int64_t count);

/// "weight" and, if the model has them, "bias".
struct Part {
  const char* suffix;
  bool bias;
};
std::vector<Part> parts(bool with_bias);

/// Queries, keys and values with one group of them (those of one key/value head) after the other.
TensorLayout interleaved_qkv(const ModelConfig& model, const std::string& own, const std::string& name,
                             const Part& part);

}  // namespace plumbline::convert
