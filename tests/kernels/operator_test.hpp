// Helpers of the operator tests: matrices between guard bytes, dense double references, random numbers whose
// seed is printed, and the distance between the two.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/operators.hpp"

namespace plumbline::test {

/// A dense matrix of doubles: the arithmetic of references.
struct Dense {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;

  Dense() = default;
  Dense(std::int64_t rows_, std::int64_t cols_)
      : rows(rows_), cols(cols_), values(static_cast<std::size_t>(rows_ * cols_)) {}
  double& operator()(std::int64_t row, std::int64_t col) {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
  double operator()(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(row * cols + col)];
  }
};

/// The same shape, every entry f(row, col).
Dense dense(std::int64_t rows, std::int64_t cols, const std::function<double(std::int64_t, std::int64_t)>& f);

/// A matrix in memory of its own, `gap` unused elements after each row, guard bytes in the gaps and around.
class Guarded {
 public:
  Guarded(std::int64_t rows, std::int64_t cols, DType type, std::int64_t gap = 0);
  Guarded(Guarded&&) = default;  // the memory moves along, the view stays right; a copy's would not
  Matrix matrix() const { return view_; }
  operator Matrix() const { return view_; }  // NOLINT: passed to operators directly
  /// Rounds to the element type.
  void write(const Dense& values);
  Dense read() const;
  /// Nobody has touched a guard byte.
  bool intact() const;
  /// All bytes, guards included: for bitwise comparison.
  const std::vector<std::uint8_t>& bytes() const { return memory_; }

 private:
  std::vector<std::uint8_t> memory_;
  Matrix view_;
};

/// The random numbers of the running test. They follow from a seed that is printed and from the test's name:
/// PLUMBLINE_TEST_SEED repeats a run, also of one test alone.
std::mt19937_64& random_engine();
std::int64_t random_integer(std::int64_t lowest, std::int64_t highest);
Guarded random_matrix(std::int64_t rows, std::int64_t cols, DType type, std::int64_t gap = 0,
                      double spread = 1);

/// Σ(found - expected)² ÷ Σ expected²; Σ(found)² where everything expected is zero. NaN counts as
/// infinitely far.
double normalised_error(const Dense& found, const Dense& expected);
/// The bound for one rounding to `type` after fp32 arithmetic: an error of twice that rounding for a 16-bit
/// type, of fifty roundings for fp32.
double tolerance(DType type);
/// Σ(found - expected)² <= bound·Σ expected². If the values are sums whose terms may cancel, `terms`
/// holds the size of the terms behind each entry: fp32 arithmetic rounds the terms, not their sum, and
/// tolerance(fp32)·Σ terms² is allowed on top.
void expect_close(const Dense& found, const Dense& expected, double bound, const std::string& what,
                  const Dense& terms = {});
/// The same, and the guard bytes; fp16 may be off by twice the rounding of its smallest numbers besides.
void expect_close(const Guarded& found, const Dense& expected, double bound, const std::string& what,
                  const Dense& terms = {});
/// A size to add to terms that fp32 may lose at its lower end: fifty roundings of it are its smallest
/// numbers.
constexpr double kUnderflow = 1e-32;
/// |found - expected| <= allowed.
void expect_within(double found, double expected, double allowed, const std::string& what);
// The largest error of a test relative to its bound is its property `largest_share_of_bound`
// (--gtest_output=json). A bound that is derived from rounding leaves room: over many seeds no share comes
// near 1.

/// Gradient of Σ weights·f(x) towards x by central differences.
Dense numerical_gradient(const std::function<Dense(const Dense&)>& f, const Dense& x, const Dense& weights);

// The backend under test: operators_cpu.cpp, or a file of cuda/. Its operators work on host memory.
/// A new set of operators.
std::unique_ptr<Operators> make_operators();
/// The floating point types it has.
std::vector<DType> element_types();
/// Required divisor of m, n and k in products of FP8 operands; 0 if it has no such products.
std::int64_t fp8_size_step();
/// Error bound of a sum of FP8 products, relative to the sum of its terms' sizes; 0: no more than in fp32.
double fp8_sum_rounding();

/// One set of operators for all tests of the process, as a rank has.
Operators& operators();
/// Value of a number that these operators compute, once it is there.
double value_of(const Number& number);

/// The element types and, for each, rows with and without gaps.
struct Storage {
  DType type;
  std::int64_t gap;
};
std::vector<Storage> storages();
std::string describe(const Storage& storage);

}  // namespace plumbline::test
