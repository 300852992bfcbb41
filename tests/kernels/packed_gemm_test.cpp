// The own matrix products for processors without AVX-512, on any processor: against plain double loops, with
// operands that end where memory ends.
#include "kernels/cpu/packed_gemm.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

/// A copy of a matrix whose last element is followed by memory that must not be touched.
class AtTheEnd {
 public:
  explicit AtTheEnd(const Matrix& from) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const auto bytes =
        static_cast<std::size_t>(((from.rows - 1) * from.stride + from.cols) * size_of(from.dtype));
    size_ = (bytes + page - 1) / page * page + page;
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + size_ - page, page, PROT_NONE) != 0) std::abort();
    std::byte* start = memory_ + size_ - page - bytes;
    std::memcpy(start, from.data, bytes);
    view_ = Matrix(start, from.rows, from.cols, from.stride, from.dtype);
  }
  ~AtTheEnd() { munmap(memory_, size_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  const Matrix& matrix() const { return view_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  Matrix view_;
};

struct Case {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate, bias;
};

Dense product_of(const Dense& a, const Dense& b, const Dense& c, const Dense& bias, const Case& p) {
  return dense(p.m, p.n, [&](std::int64_t i, std::int64_t j) {
    double sum = (p.accumulate ? c(i, j) : 0) + (p.bias ? bias(0, j) : 0);
    for (std::int64_t l = 0; l < p.k; ++l)
      sum += (p.a_transposed ? a(l, i) : a(i, l)) * (p.b_transposed ? b(j, l) : b(l, j));
    return sum;
  });
}

Dense magnitudes(const Guarded& x) {
  Dense result = x.read();
  for (double& value : result.values) value = std::abs(value);
  return result;
}

void check_packed(const Case& p, DType type, DType c_type, std::int64_t gap) {
  const std::string what =
      fmt::format("{}x{}x{} aT{} bT{} acc{} bias{} {}->{} gap {}", p.m, p.n, p.k, p.a_transposed,
                  p.b_transposed, p.accumulate, p.bias, name_of(type), name_of(c_type), gap);
  const Guarded a = p.a_transposed ? random_matrix(p.k, p.m, type, gap) : random_matrix(p.m, p.k, type, gap);
  const Guarded b = p.b_transposed ? random_matrix(p.n, p.k, type, gap) : random_matrix(p.k, p.n, type, gap);
  const Guarded bias = random_matrix(1, p.n, type);
  const Guarded c = random_matrix(p.m, p.n, c_type, gap);
  const Dense expected = product_of(a.read(), b.read(), c.read(), bias.read(), p);
  const Dense terms = product_of(magnitudes(a), magnitudes(b), magnitudes(c), magnitudes(bias), p);
  const AtTheEnd end_a(a), end_b(b), end_c(c), end_bias(bias);
  Gemm gemm{.a = end_a.matrix(),
            .b = end_b.matrix(),
            .c = end_c.matrix(),
            .a_transposed = p.a_transposed,
            .b_transposed = p.b_transposed,
            .accumulate = p.accumulate,
            .bias = p.bias ? end_bias.matrix() : Matrix{}};
  cpu::PackedGemm packed;
  packed.run(gemm);
  gemm.c = c;
  packed.run(gemm);  // with the first one's remains in its memory
  expect_close(c, expected, tolerance(c_type), what, terms);
  for (std::int64_t row = 0; row < p.m; ++row) {
    ASSERT_EQ(std::memcmp(c.matrix().at(row, 0), end_c.matrix().at(row, 0),
                          static_cast<std::size_t>(p.n * size_of(c_type))),
              0)
        << what << ": other bits the second time, row " << row;
  }
}

TEST(PackedGemm, EveryLayoutTypeAndMode) {
  // Sizes around a tile (6 x 16), a group of columns (128), a block (256 rows, 768 columns) and a pass over k
  // (256).
  constexpr std::int64_t kSizes[][3] = {{1, 1, 1},    {6, 16, 8},   {7, 17, 9},     {8, 130, 33},
                                        {9, 24, 5},   {64, 32, 64}, {70, 129, 257}, {263, 40, 520},
                                        {12, 775, 7}, {3, 800, 300}};
  for (const auto& size : kSizes) {
    for (int mode = 0; mode < 16; ++mode) {
      const Case p{size[0],         size[1],         size[2],        (mode & 1) != 0,
                   (mode & 2) != 0, (mode & 4) != 0, (mode & 8) != 0};
      const std::int64_t gap = mode % 3;
      check_packed(p, DType::fp32, DType::fp32, gap);
      for (const DType type : {DType::bf16, DType::fp16}) {
        check_packed(p, type, type, gap);
        check_packed(p, type, DType::fp32, gap);
      }
    }
  }
}

TEST(PackedGemm, OperandsReadInPlaceAndPackedGiveTheSameBits) {
  // Rows too far apart are packed; those that are near are read where they are.
  for (const bool transposed : {false, true}) {
    const Guarded near = random_matrix(70, 70, DType::fp32);
    Guarded copy(70, 70, DType::fp32, 5000);
    copy.write(near.read());
    const Guarded b = random_matrix(70, 50, DType::fp32);
    const Guarded first(70, 50, DType::fp32);
    const Guarded second(70, 50, DType::fp32);
    cpu::PackedGemm packed;
    packed.run({.a = near, .b = b, .c = first, .a_transposed = transposed});
    packed.run({.a = copy, .b = b, .c = second, .a_transposed = transposed});
    EXPECT_EQ(first.bytes(), second.bytes()) << transposed;
  }
}

TEST(PackedGemm, RandomSizes) {
  for (int i = 0; i < 12; ++i) {
    const Case p{random_integer(1, 300),    random_integer(1, 300),    random_integer(1, 300),
                 random_integer(0, 1) == 1, random_integer(0, 1) == 1, random_integer(0, 1) == 1,
                 random_integer(0, 1) == 1};
    for (const DType type : element_types()) check_packed(p, type, DType::fp32, random_integer(0, 2));
  }
}

}  // namespace
}  // namespace plumbline::test
