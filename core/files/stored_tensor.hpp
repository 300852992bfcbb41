// A tensor as it stands in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/files/stored_type.hpp"

namespace plumbline {

/// Rows and columns of an FP8 matrix's elements that share a factor.
constexpr std::int64_t kScaledBlock = 128;
/// Blocks of so many elements in a row or a column.
constexpr std::int64_t scaled_blocks(std::int64_t elements) {
  return (elements + kScaledBlock - 1) / kScaledBlock;
}
/// Ends the name of an FP8 matrix's factors.
constexpr const char* kScalesSuffix = "_scale_inv";

/// A tensor in a mapped file: row-major, little-endian, not necessarily aligned to its element size.
struct StoredTensor {
  StoredType type = StoredType::fp32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  /// Of an FP8 matrix: fp32 factors of its blocks of kScaledBlock × kScaledBlock elements, row by row
  /// (block_scales.hpp). Empty: none.
  std::span<const std::byte> scales{};

  std::int64_t elements() const;
  /// Element `index` as a float, multiplied with its block's factor; int64 is rounded. No bounds check.
  float at(std::int64_t index) const;
  /// Type of the values as they are copied to another file: bf16 of an FP8 matrix with factors.
  StoredType value_type() const { return scales.empty() ? type : StoredType::bf16; }
  /// Content of the tensor in place of weights, for messages: "whole numbers (I32)". Empty: weights.
  std::string no_weights() const;
};

}  // namespace plumbline
