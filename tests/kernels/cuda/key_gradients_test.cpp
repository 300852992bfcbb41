// Sums of a key/value head's gradients, on the host: against doubles, rounded once.
#include "kernels/cuda/attention/key_gradients.hpp"

#include <fmt/format.h>

#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

TEST(KeyGradients, AreTheSumOfTheirPartsRoundedOnce) {
  struct Case {
    std::int64_t parts, rows, head_dim, gap;
  };
  constexpr Case kCases[] = {{2, 5, 8, 0}, {3, 257, 128, 256}, {7, 33, 72, 8}, {4, 1, 64, 0}, {5, 9, 40, 3}};
  for (const DType type : {DType::bf16, DType::fp16}) {
    for (const auto& [count, rows, head_dim, gap] : kCases) {
      const std::string what = fmt::format("{} {} parts of {}x{}", name_of(type), count, rows, head_dim);
      const Guarded parts = random_matrix(count * rows, head_dim, type);
      const Dense each = parts.read();
      const Dense expected =
          dense(rows, head_dim, [&, n = count, r = rows](std::int64_t row, std::int64_t col) {
            double sum = 0;
            for (std::int64_t i = 0; i < n; ++i) sum += each(i * r + row, col);
            return sum;
          });
      const Guarded sum(rows, head_dim, type, gap);
      cuda::sum_key_gradients({nullptr, 4}, parts, sum);
      expect_close(sum, expected, tolerance(type), what);
      EXPECT_TRUE(parts.intact()) << what;
    }
  }
}

}  // namespace
}  // namespace plumbline::test
