// Matrices with more elements than one launch can count, in pieces that it can. No test has the memory to
// fill one.
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "kernels/cuda/device/over_chunks.cuh"
#include "kernels/cuda/kernels/kernels.hpp"

namespace plumbline::cuda {
namespace {

TEST(Pieces, CoverLargeMatricesOnceAndCanBeCounted) {
  struct Case {
    std::int64_t elements;
    DType type;
    std::int64_t pieces;
  };
  constexpr std::int64_t kGiga = std::int64_t{1} << 30;
  constexpr Case kCases[] = {{1, DType::bf16, 1},
                             {kGiga, DType::bf16, 1},
                             {kGiga + 1, DType::fp32, 2},
                             {13 * kGiga + 5, DType::fp32, 14}};
  for (const auto& [elements, type, pieces] : kCases) {
    auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);  // nobody reads it
    const Matrix whole = flattened(Matrix(base, 1, elements, type));
    std::int64_t covered = 0;
    std::int64_t count = 0;
    std::int64_t sums = 0;
    in_row_pieces(whole, [&](const Matrix& piece) {
      EXPECT_EQ(piece.data, base + covered * size_of(type));
      EXPECT_TRUE(rows_aligned(piece));
      EXPECT_NO_THROW(chunks_of(piece.rows, piece.cols));
      sums += norm_sums({nullptr, 132}, piece);
      covered += piece.cols;
      ++count;
    });
    EXPECT_EQ(covered, elements);
    EXPECT_EQ(count, pieces);
    EXPECT_EQ(norm_sums({nullptr, 132}, whole), sums);
  }
  EXPECT_THROW(chunks_of(1, 13 * kGiga), Error);
}

}  // namespace
}  // namespace plumbline::cuda
