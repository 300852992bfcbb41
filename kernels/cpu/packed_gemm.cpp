// Matrix products after Goto & van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS
// 34, 2008). A panel of sixteen columns of B stays in the first cache, while the rows of a block of A pass,
// which is in the second.
#include "kernels/cpu/packed_gemm.hpp"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/dispatch.hpp"
#include "kernels/cpu/packed_tile.hpp"

// For registers of eight lanes, and only called where is_fast(); processors with wider ones have oneDNN's
// products.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLUMBLINE_SANITIZED)
#define PLUMBLINE_AVX2_VERSION __attribute__((target("arch=x86-64-v3")))
#else
#define PLUMBLINE_AVX2_VERSION
#endif

namespace plumbline::cpu {
namespace {

// Chosen with 32 KiB of first and 1 MiB of second cache; half or twice of each is within 2 %.
constexpr std::int64_t kDepth = 256;        // of a pass over k: a panel of B takes 16 KiB
constexpr std::int64_t kBlockHeight = 256;  // of A
constexpr std::int64_t kBlockCols = 768;    // of C, which comes back with every pass
constexpr std::int64_t kGroupCols = 128;    // of B that are packed together
constexpr std::int64_t kPadding =
    16;  // floats; without it rows of packed blocks would fall on the same cache lines
// Steps in elements up to which A is read where it is: beyond, its rows fall on the same cache lines.
constexpr std::int64_t kLargestRowStep = 4096;
constexpr std::int64_t kLargestDepthStep = 512;
constexpr std::int64_t kDepthStepCols = 64;  // of C at most: with more, each number of A is used often enough

std::int64_t parts_of(std::int64_t size, std::int64_t largest) {
  return (size + largest - 1) / largest;
}

/// A range cut into parts of at most `largest` (rounded up to `step`) and about the same length, multiples of
/// `step`.
struct Cut {
  std::int64_t size, step, parts;
  Cut(std::int64_t size_, std::int64_t largest, std::int64_t step_)
      : size(size_), step(step_), parts(parts_of(size_, largest)) {}
  std::int64_t begin(std::int64_t part) const {
    return std::min(size, parts_of(size, step) * part / parts * step);
  }
  std::int64_t length(std::int64_t part) const { return begin(part + 1) - begin(part); }
};

/// Asks for the part of B that is packed next, a few cache lines with every tile.
class Ahead {
 public:
  template <class T>
  Ahead(const PackedOperand<T>& x, std::int64_t rows, std::int64_t k, std::int64_t tiles) {
    const bool along_k = x.k_step == 1;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    start_ = reinterpret_cast<const char*>(x.data);
    step_ = (along_k ? x.row_step : x.k_step) * kSize;
    bytes_ = (along_k ? k : rows) * kSize;
    left_ = along_k ? rows : k;
    each_ = left_ * parts_of(bytes_, kLine) / tiles + 1;
  }
  PLUMBLINE_INLINE void ask() {
    for (std::int64_t i = 0; i < each_ && left_ > 0; ++i) {
      __builtin_prefetch(start_ + done_, 0, 2);
      done_ += kLine;
      if (done_ < bytes_) continue;
      done_ = 0;
      start_ += step_;
      --left_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64;
  const char* start_;
  std::int64_t step_, bytes_, left_, each_;
  std::int64_t done_ = 0;  // bytes of the row
};

/// A tile of `rows` rows of A, from `first` on, times one panel of B.
PLUMBLINE_AVX2_VERSION void sum_tile(const Left& a, std::int64_t first, std::int64_t rows, std::int64_t k,
                                     const float* b, const Sums& sums) {
  const float* from = a.data + first * a.row_step;
  with_rows(
      rows, [&](auto height) __attribute__((always_inline)) {
        if (a.k_step == 1) {
          multiply_tile<decltype(height)::value, true>(k, from, a.row_step, b, sums);
        } else {
          multiply_tile<decltype(height)::value, false>(k, from, a.k_step == 0 ? rows : a.k_step, b, sums);
        }
      });
}

/// All rows of a block of A times one panel of B.
template <class C, class Bias>
PLUMBLINE_AVX2_VERSION void multiply_panel(Left a, std::int64_t rows, std::int64_t k, const float* b,
                                           Outcome<C, Bias> out, std::int64_t cols, Ahead& ahead) {
  alignas(64) float sums[kTileRows * kTileCols];
  // Whole rows of C that nothing else is added to need no second look.
  const bool at_once =
      std::is_same_v<C, float> && cols == kTileCols && out.before == nullptr && out.bias == nullptr;
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t count = tile_rows(rows - row);
    const Outcome<C, Bias> tile = out.from(row, 0);
    tile.prefetch(count, cols);
    if (at_once) {
      sum_tile(a, row, count, k, b, {reinterpret_cast<float*>(tile.to), tile.stride, tile.accumulate});
    } else {
      sum_tile(a, row, count, k, b, {sums, kTileCols, false});
      for (std::int64_t i = 0; i < count; ++i) {
        if (cols == kTileCols) {
          finish_row(sums + i * kTileCols, tile.from(i, 0), All{});
        } else {
          finish_row(sums + i * kTileCols, tile.from(i, 0), First{cols});
        }
      }
    }
    row += count;
    ahead.ask();
  }
}

template <class T>
PLUMBLINE_AVX2_VERSION void pack_right(PackedOperand<T> x, std::int64_t cols, std::int64_t k, float* to,
                                       std::int64_t panel_step) {
  pack_panels(x, cols, k, to, panel_step);
}

/// `readable`: rows that are there from the block's first.
template <class T>
PLUMBLINE_AVX2_VERSION void pack_left(PackedOperand<T> x, std::int64_t rows, std::int64_t readable,
                                      std::int64_t k, float* to) {
  if (x.k_step == 1) {
    pack_rows(x, rows, k, k + kPadding, to);
  } else {
    pack_tiles(
        x, rows, readable, k, k + kPadding, to,
        [](std::int64_t left) __attribute__((always_inline)) { return tile_rows(left); });
  }
}

float* aligned(std::vector<float>& memory, std::int64_t count) {
  constexpr std::size_t kAlignment = 64;
  const auto wanted = static_cast<std::size_t>(count) + kAlignment / sizeof(float);
  if (memory.size() < wanted) memory.resize(wanted);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (kAlignment - address % kAlignment) % kAlignment / sizeof(float);
}

/// A product of operands of type T, and the memory for it.
template <class T>
struct Product {
  PackedOperand<T> a, b;
  std::int64_t m, n, k;
  const T* bias;
  float *a_memory, *b_memory, *sums;  // sums (block's rows, sums_stride), or null
  std::int64_t sums_stride;

  /// A is multiplied where it is.
  bool in_place() const {
    if (sizeof(T) != sizeof(float)) return false;
    return a.k_step == 1 ? a.row_step <= kLargestRowStep
                         : a.k_step <= kLargestDepthStep && n <= kDepthStepCols;
  }
  Left left(const PackedOperand<T>& block, std::int64_t depth) const {
    if (in_place()) return {reinterpret_cast<const float*>(block.data), block.row_step, block.k_step};
    return {a_memory, depth + kPadding, block.k_step == 1 ? 1 : 0};
  }

  /// C from `to` += or = `rows` rows of A times the columns [first, end) of B, from first_k on.
  template <class C>
  void multiply_block(const Left& block, std::int64_t rows, std::int64_t first, std::int64_t end,
                      std::int64_t first_k, std::int64_t depth, const Outcome<C, T>& out) const {
    const std::int64_t panel_step = (depth + 1) * kTileCols;
    for (std::int64_t group = first; group < end; group += kGroupCols) {
      const std::int64_t cols = std::min(kGroupCols, end - group);
      pack_right(b.from(group, first_k), cols, depth, b_memory, panel_step);
      const std::int64_t next = std::min(kGroupCols, end - group - cols);
      Ahead ahead(b.from(group + cols, first_k), next, depth,
                  parts_of(rows, kTileRows) * parts_of(cols, kTileCols));
      for (std::int64_t col = 0; col < cols; col += kTileCols) {
        multiply_panel(block, rows, depth, b_memory + col / kTileCols * panel_step,
                       out.from(0, group + col - first), std::min(kTileCols, cols - col), ahead);
      }
    }
  }

  template <class C>
  void run(const Matrix& c, bool accumulate) const {
    const Cut heights(m, kBlockHeight, kTileRows);
    const Cut widths(n, kBlockCols, kTileCols);
    const Cut passes(k, kDepth, 8);
    for (std::int64_t height = 0; height < heights.parts; ++height) {
      const std::int64_t row = heights.begin(height);
      const std::int64_t rows = heights.length(height);
      for (std::int64_t width = 0; width < widths.parts; ++width) {
        const std::int64_t col = widths.begin(width);
        for (std::int64_t pass = 0; pass < passes.parts; ++pass) {
          const std::int64_t depth = passes.length(pass);
          const PackedOperand<T> block = a.from(row, passes.begin(pass));
          if (!in_place() && (width == 0 || passes.parts > 1))
            pack_left(block, rows, m - row, depth, a_memory);
          const auto multiply = [&](const auto& out) {
            multiply_block(left(block, depth), rows, col, col + widths.length(width), passes.begin(pass),
                           depth, out);
          };
          const bool last = pass + 1 == passes.parts;
          const T* added = last && bias != nullptr ? bias + col : nullptr;
          C* to = row_of<C>(c, row) + col;
          if (sums == nullptr) {
            multiply(Outcome<C, T>{to, c.stride, accumulate || pass > 0, nullptr, 0, added});
          } else if (last) {
            multiply(Outcome<C, T>{to, c.stride, accumulate, sums, sums_stride, added});
          } else {
            multiply(Outcome<float, T>{sums, sums_stride, pass > 0, nullptr, 0, nullptr});
          }
        }
      }
    }
  }
};

/// `x` with the rows, or where `transposed` the columns, in front.
template <class T>
PackedOperand<T> operand(const Matrix& x, bool transposed) {
  return {x.as<T>(), transposed ? 1 : x.stride, transposed ? x.stride : 1};
}

}  // namespace

bool PackedGemm::is_fast() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(PLUMBLINE_SANITIZED)
  return __builtin_cpu_supports("x86-64-v3") != 0;
#else
  return false;
#endif
}

void PackedGemm::run(const Gemm& gemm) {
  const std::int64_t m = gemm.c.rows;
  const std::int64_t n = gemm.c.cols;
  const std::int64_t k = gemm.a_transposed ? gemm.a.rows : gemm.a.cols;
  const std::int64_t depth = std::min(k, kDepth) + 8;
  const std::int64_t block_rows = std::min(m, kBlockHeight + kTileRows);
  const std::int64_t sums_stride = std::min(n, kBlockCols + kTileCols);
  float* a = aligned(a_, block_rows * (depth + kPadding));
  float* b = aligned(b_, (kGroupCols + kTileCols) * (depth + 1));
  const bool keeps_sums = gemm.c.dtype != DType::fp32 && k > kDepth;  // they are rounded once
  float* sums = keeps_sums ? aligned(sums_, block_rows * sums_stride) : nullptr;
  with_type("gemm", gemm.a.dtype, [&](auto type) {
    using T = decltype(type);
    const Product<T> product{operand<T>(gemm.a, gemm.a_transposed),
                             operand<T>(gemm.b, !gemm.b_transposed),
                             m,
                             n,
                             k,
                             gemm.bias.as<T>(),
                             a,
                             b,
                             sums,
                             sums_stride};
    if (gemm.c.dtype == DType::fp32) {
      product.template run<float>(gemm.c, gemm.accumulate);
    } else if constexpr (sizeof(T) != sizeof(float)) {
      product.template run<T>(gemm.c, gemm.accumulate);
    }
  });
}

}  // namespace plumbline::cpu
