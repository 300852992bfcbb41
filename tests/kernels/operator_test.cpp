// Guarded memory, random numbers and distances for the operator tests.
#include "tests/kernels/operator_test.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <limits>

#include "tests/kernels/fp8_reference.hpp"

namespace plumbline::test {
namespace {

constexpr std::uint8_t kGuard = 0xA5;
constexpr std::int64_t kMargin = 128;

float from_bf16(std::uint16_t half) {
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Nearest bf16 by comparing the two neighbours, ties to the even one.
std::uint16_t to_bf16(double value) {
  const auto narrow = static_cast<float>(value);
  std::uint32_t bits;
  std::memcpy(&bits, &narrow, sizeof bits);
  const auto below = static_cast<std::uint16_t>(bits >> 16);
  const auto above = static_cast<std::uint16_t>(below + 1);
  const double down = std::fabs(value - from_bf16(below));
  const double up = std::fabs(value - from_bf16(above));
  if (std::isinf(value) || down < up) return below;
  if (down > up) return above;
  return below % 2 == 0 ? below : above;
}

double from_fp16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  double size = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) size = mantissa == 0 ? HUGE_VAL : std::nan("");
  return bits >> 15 == 0 ? size : -size;
}

/// Nearest fp16, ties to even; 65,520 and more become infinity.
std::uint16_t to_fp16(double value) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return 0x7e00;
  const double size = std::fabs(value);
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00);
  const int exponent = size < std::ldexp(1, -14) ? -14 : std::ilogb(size);
  // 1024 at the bottom of a normal binade, 2048 at its top, which correctly carries into the exponent.
  const int steps = static_cast<int>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  const int bits = exponent == -14 ? steps : (exponent + 14) * 1024 + steps;
  return static_cast<std::uint16_t>(sign | bits);
}

std::uint64_t seed_of_process() {
  const char* given = std::getenv("PLUMBLINE_TEST_SEED");
  const std::uint64_t value = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "PLUMBLINE_TEST_SEED=" << value << "\n";
  return value;
}

double sum_of_squares(const Dense& x) {
  double sum = 0;
  for (const double value : x.values) sum += value * value;
  return sum;
}

double squared_distance(const Dense& a, const Dense& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.values.size(); ++i) sum += std::pow(a.values[i] - b.values[i], 2);
  return std::isnan(sum) ? std::numeric_limits<double>::infinity() : sum;
}

/// Keeps the largest share of the running test.
void record(double error, double allowed, const std::string& what) {
  static std::string test;
  static double largest;
  const testing::TestInfo* running = testing::UnitTest::GetInstance()->current_test_info();
  if (running == nullptr || allowed == 0) return;
  const std::string name = fmt::format("{}.{}", running->test_suite_name(), running->name());
  const double share = error / allowed;
  if (name == test && share <= largest) return;
  test = name;
  largest = share;
  testing::Test::RecordProperty("largest_share_of_bound", fmt::format("{:.3g} {}", share, what));
}

}  // namespace

Dense dense(std::int64_t rows, std::int64_t cols,
            const std::function<double(std::int64_t, std::int64_t)>& f) {
  Dense result(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) result(i, j) = f(i, j);
  }
  return result;
}

Guarded::Guarded(std::int64_t rows, std::int64_t cols, DType type, std::int64_t gap)
    : memory_(static_cast<std::size_t>(2 * kMargin + rows * (cols + gap) * size_of(type)), kGuard),
      view_(memory_.data() + kMargin, rows, cols, cols + gap, type) {}

void Guarded::write(const Dense& values) {
  ASSERT_EQ(values.rows, view_.rows);
  ASSERT_EQ(values.cols, view_.cols);
  for (std::int64_t i = 0; i < view_.rows; ++i) {
    for (std::int64_t j = 0; j < view_.cols; ++j) {
      void* at = view_.at(i, j);
      if (view_.dtype == DType::fp32) {
        const auto value = static_cast<float>(values(i, j));
        std::memcpy(at, &value, sizeof value);
      } else if (view_.dtype == DType::int32) {
        const auto value = static_cast<std::int32_t>(values(i, j));
        std::memcpy(at, &value, sizeof value);
      } else if (view_.dtype == DType::uint8) {
        *static_cast<std::uint8_t*>(at) = static_cast<std::uint8_t>(values(i, j));
      } else if (is_fp8(view_.dtype)) {
        *static_cast<std::uint8_t*>(at) = fp8_code(view_.dtype, values(i, j));
      } else {
        const std::uint16_t value =
            view_.dtype == DType::bf16 ? to_bf16(values(i, j)) : to_fp16(values(i, j));
        std::memcpy(at, &value, sizeof value);
      }
    }
  }
}

Dense Guarded::read() const {
  return dense(view_.rows, view_.cols, [&](std::int64_t i, std::int64_t j) -> double {
    const void* at = view_.at(i, j);
    if (view_.dtype == DType::fp32) {
      float value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    if (view_.dtype == DType::int32) {
      std::int32_t value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    if (view_.dtype == DType::uint8) return *static_cast<const std::uint8_t*>(at);
    if (is_fp8(view_.dtype)) return fp8_value(view_.dtype, *static_cast<const std::uint8_t*>(at));
    std::uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return view_.dtype == DType::bf16 ? from_bf16(value) : from_fp16(value);
  });
}

bool Guarded::intact() const {
  const std::int64_t row_bytes = view_.stride * size_of(view_.dtype);
  const std::int64_t used_bytes = view_.cols * size_of(view_.dtype);
  const auto size = static_cast<std::int64_t>(memory_.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t inside = i - kMargin;
    const bool in_rows = inside >= 0 && inside < view_.rows * row_bytes;
    if (in_rows && inside % row_bytes < used_bytes) continue;
    if (memory_[static_cast<std::size_t>(i)] != kGuard) return false;
  }
  return true;
}

std::mt19937_64& random_engine() {
  static const std::uint64_t seed = seed_of_process();
  static std::string test;
  static std::mt19937_64 engine;
  const testing::TestInfo* running = testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = fmt::format("{} {}.{}", seed, running->test_suite_name(), running->name());
  if (name != test) {
    test = name;
    std::seed_seq numbers(name.begin(), name.end());
    engine.seed(numbers);
  }
  return engine;
}

std::int64_t random_integer(std::int64_t lowest, std::int64_t highest) {
  return std::uniform_int_distribution<std::int64_t>(lowest, highest)(random_engine());
}

Guarded random_matrix(std::int64_t rows, std::int64_t cols, DType type, std::int64_t gap, double spread) {
  std::normal_distribution<double> normal(0, spread);
  Guarded result(rows, cols, type, gap);
  result.write(dense(rows, cols, [&](std::int64_t, std::int64_t) { return normal(random_engine()); }));
  return result;
}

double normalised_error(const Dense& found, const Dense& expected) {
  const double size = sum_of_squares(expected);
  return squared_distance(found, expected) / (size > 0 ? size : 1);
}

double tolerance(DType type) {
  // A bf16 is off by up to 2⁻⁸ of itself, a float by 2⁻²⁴. fp16 is held to the bound of bf16.
  return type == DType::fp32 ? 1e-11 : std::ldexp(1, -14);
}

void expect_close(const Dense& found, const Dense& expected, double bound, const std::string& what,
                  const Dense& terms) {
  ASSERT_EQ(found.rows, expected.rows) << what;
  ASSERT_EQ(found.cols, expected.cols) << what;
  const double error = squared_distance(found, expected);
  const double allowed = bound * sum_of_squares(expected) + tolerance(DType::fp32) * sum_of_squares(terms);
  EXPECT_LE(error, allowed) << what;
  record(error, allowed, what);
}

void expect_close(const Guarded& found, const Dense& expected, double bound, const std::string& what,
                  const Dense& terms) {
  Dense rounded = terms;
  if (found.matrix().dtype == DType::fp16 && bound > 0) {
    if (rounded.values.empty()) rounded = Dense(expected.rows, expected.cols);
    const double smallest = std::ldexp(1, -24) / std::sqrt(tolerance(DType::fp32));
    for (double& term : rounded.values) term = std::hypot(term, smallest);
  }
  expect_close(found.read(), expected, bound, what, rounded);
  EXPECT_TRUE(found.intact()) << what << ": guard bytes were overwritten";
}

void expect_within(double found, double expected, double allowed, const std::string& what) {
  EXPECT_NEAR(found, expected, allowed) << what;
  record(std::abs(found - expected), allowed, what);
}

// Central differences of two widths, extrapolated: near a row of small numbers a norm bends within one width.
Dense numerical_gradient(const std::function<Dense(const Dense&)>& f, const Dense& x, const Dense& weights) {
  constexpr double kStep = 1e-4;
  Dense gradient(x.rows, x.cols);
  Dense moved = x;
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const auto weighted = [&](double step) {
      moved.values[i] = x.values[i] + step;
      const Dense value = f(moved);
      double sum = 0;
      for (std::size_t j = 0; j < weights.values.size(); ++j) sum += weights.values[j] * value.values[j];
      return sum;
    };
    const double narrow = weighted(kStep) - weighted(-kStep);
    const double wide = weighted(2 * kStep) - weighted(-2 * kStep);
    moved.values[i] = x.values[i];
    gradient.values[i] = (8 * narrow - wide) / (12 * kStep);
  }
  return gradient;
}

Operators& operators() {
  static const std::unique_ptr<Operators> instance = make_operators();
  return *instance;
}

double value_of(const Number& number) {
  operators().synchronize();
  return number.value();
}

std::vector<Storage> storages() {
  std::vector<Storage> result;
  for (const DType type : element_types()) {
    result.push_back({type, 0});
    result.push_back({type, type == DType::fp32 ? 5 : 3});
  }
  return result;
}

std::string describe(const Storage& storage) {
  return fmt::format("{} gap {}", name_of(storage.type), storage.gap);
}

}  // namespace plumbline::test
