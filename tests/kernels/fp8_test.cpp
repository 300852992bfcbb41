// Quantization to 8-bit floating point types: codes against a search over all of them in double, largest
// values, scales and transpositions.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/error.hpp"
#include "tests/kernels/fp8_reference.hpp"
#include "tests/kernels/operator_test.hpp"

namespace plumbline::test {
namespace {

constexpr DType kFp8Types[] = {DType::fp8_e4m3, DType::fp8_e5m2};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One fp32 number between guard bytes.
Guarded number(double value) {
  Guarded result(1, 1, DType::fp32);
  result.write(dense(1, 1, [&](auto, auto) { return value; }));
  return result;
}

/// Scale and 1/scale as a column of a wider matrix.
Guarded scales_of(double scale) {
  Guarded result(2, 1, DType::fp32, 2);
  result.write(dense(2, 1, [&](auto row, auto) { return row == 0 ? scale : 1 / scale; }));
  return result;
}

double largest_size(const Dense& x) {
  double largest = 0;
  for (const double value : x.values) largest = std::fmax(largest, std::fabs(value));
  return largest;
}

/// y holds the codes of x·scale, computed in fp32; any NaN will do for a NaN.
void expect_codes(const Guarded& y, const Dense& x, float scale, const std::string& what) {
  const Matrix view = y.matrix();
  int wrong = 0;
  for (std::int64_t i = 0; i < view.rows; ++i) {
    for (std::int64_t j = 0; j < view.cols; ++j) {
      const float scaled = static_cast<float>(x(i, j)) * scale;
      const std::uint8_t expected = fp8_code(view.dtype, scaled);
      const std::uint8_t found = *static_cast<const std::uint8_t*>(view.at(i, j));
      if (std::isnan(x(i, j)) ? std::isnan(fp8_value(view.dtype, found)) : found == expected) continue;
      if (++wrong > 5) continue;
      ADD_FAILURE() << what << ": " << x(i, j) << "·" << scale << " at (" << i << ", " << j << ") became "
                    << fp8_value(view.dtype, found) << ", expected " << fp8_value(view.dtype, expected);
    }
  }
  EXPECT_EQ(wrong, 0) << what;
  EXPECT_TRUE(y.intact()) << what << ": guard bytes were overwritten";
}

/// Every finite number of the type, midpoints of neighbours, the fp32 numbers next to those, and numbers that
/// are too large, too small or NaN.
std::vector<double> corner_cases(DType type) {
  const double largest = largest_finite(type);
  const double smallest = fp8_value(type, 1);
  std::vector<double> cases = {0,
                               largest * 1.03,
                               largest * 1.1,
                               largest * 2,
                               std::numeric_limits<float>::max(),
                               kInfinity,
                               kNan,
                               std::numeric_limits<float>::denorm_min(),
                               smallest * 0.499,
                               smallest * 0.501};
  for (std::uint8_t code = 0; fp8_value(type, code) < largest; ++code) {
    const double above = fp8_value(type, code + 1);
    const auto halfway = static_cast<float>((fp8_value(type, code) + above) / 2);
    cases.insert(cases.end(), {above, halfway, std::nextafter(halfway, 0.0F), std::nextafter(halfway, 1e6F)});
  }
  const std::size_t positive = cases.size();
  for (std::size_t i = 0; i < positive; ++i) cases.push_back(-cases[i]);
  return cases;
}

TEST(Fp8, LargestFiniteValues) {
  EXPECT_EQ(fp8_value(DType::fp8_e4m3, 0x7E), 448);
  EXPECT_EQ(fp8_value(DType::fp8_e5m2, 0x7B), 57344);
  for (const DType type : kFp8Types) {
    EXPECT_EQ(largest_finite(type), type == DType::fp8_e4m3 ? 448 : 57344);
    EXPECT_EQ(size_of(type), 1);
  }
}

TEST(Fp8, QuantizeRoundsEveryCornerCase) {
  for (const DType type : kFp8Types) {
    const std::vector<double> cases = corner_cases(type);
    const auto count = static_cast<std::int64_t>(cases.size());
    for (const DType storage : element_types()) {
      Guarded x(1, count, storage);
      x.write(dense(1, count, [&](auto, auto j) { return cases[static_cast<std::size_t>(j)]; }));
      for (const float scale : {1.0F, 0.5F, 16.0F}) {
        const Guarded y(1, count, type);
        operators().fp8_quantize(x, scales_of(scale), {}, y);
        expect_codes(y, x.read(), scale, fmt::format("{} to {}", name_of(storage), name_of(type)));
      }
    }
  }
}

TEST(Fp8, QuantizeRandomNumbersOfSlices) {
  constexpr std::int64_t kSizes[][2] = {{1, 1}, {3, 37}, {5, 16}, {16, 64}, {33, 130}, {130, 336}};
  std::uniform_real_distribution<double> exponent(-22, 20);
  std::uniform_real_distribution<double> mantissa(-1, 1);
  const auto wild = [&](auto, auto) {
    return mantissa(random_engine()) * std::exp2(exponent(random_engine()));
  };
  for (const DType type : kFp8Types) {
    for (const DType storage : element_types()) {
      for (const auto& size : kSizes) {
        for (const std::int64_t gap : {0, 8, 3}) {
          const std::string what =
              fmt::format("{}x{} {} gap {} to {}", size[0], size[1], name_of(storage), gap, name_of(type));
          // The other columns of the matrix are larger: they count for nothing.
          Guarded wide(size[0], size[1] + gap, storage);
          wide.write(dense(size[0], size[1] + gap, [&](auto i, auto j) {
            return gap > 0 && (j < gap / 2 || j >= gap / 2 + size[1]) ? 60000 : wild(i, j) / 32;
          }));
          const Dense all = wide.read();
          const Dense x = dense(size[0], size[1], [&](auto i, auto j) { return all(i, gap / 2 + j); });
          const auto scale = static_cast<float>(std::exp2(mantissa(random_engine()) * 4));
          const Guarded scales = scales_of(scale);
          const Guarded y(size[0], size[1], type);
          const double before = largest_size(x) * (random_integer(0, 1) == 0 ? 0.5 : 2);
          const Guarded amax = number(before);
          const double noted = amax.read()(0, 0);
          operators().fp8_quantize(wide.matrix().columns(gap / 2, size[1]), scales, amax, y);
          expect_codes(y, x, scale, what);
          EXPECT_EQ(amax.read()(0, 0), std::fmax(noted, largest_size(x))) << what;
          EXPECT_TRUE(amax.intact() && scales.intact()) << what;
          operators().fp8_amax(wide.matrix().columns(gap / 2, size[1]), amax);
          EXPECT_EQ(amax.read()(0, 0), std::fmax(noted, largest_size(x))) << what;
        }
      }
    }
  }
}

TEST(Fp8, LargestValueOfWhatIsNotFinite) {
  for (const DType storage : element_types()) {
    const auto found = [&](double before, double value) {
      Guarded x(3, 37, storage);
      x.write(dense(3, 37, [&](auto i, auto j) { return i == 1 && j == 35 ? value : 2 - i * 0.5; }));
      const Guarded amax = number(before);
      operators().fp8_amax(x, amax);
      const Guarded same = number(before);
      operators().fp8_quantize(x, scales_of(1), same, Guarded(3, 37, DType::fp8_e5m2));
      EXPECT_EQ(amax.bytes(), same.bytes()) << before << " and " << value;
      EXPECT_TRUE(amax.intact());
      return amax.read()(0, 0);
    };
    EXPECT_EQ(found(0, -3), 3);
    EXPECT_EQ(found(0, 1), 2);
    EXPECT_EQ(found(5, 3), 5);
    EXPECT_EQ(found(5, -kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(found(0, kNan)));
    EXPECT_TRUE(std::isnan(found(kInfinity, -kNan)));
    EXPECT_TRUE(std::isnan(found(kNan, 3)));
    EXPECT_TRUE(std::isnan(found(kNan, kInfinity)));
  }
}

TEST(Fp8, ScalesFollowTheLargestOfTheHistory) {
  constexpr std::int64_t kSlots = 7;
  for (const std::int64_t steps : {1, 3, 16}) {
    for (const int margin : {0, 1, 3}) {
      for (const DType type : kFp8Types) {
        const std::int64_t last = steps - 1;
        Guarded amaxes = random_matrix(steps, kSlots, DType::fp32, 2);
        amaxes.write(dense(steps, kSlots, [&](auto i, auto j) -> double {
          const double other = std::fabs(amaxes.read()(i, j));
          if (j == 1) return 0;
          if (j == 2) return i == last ? kInfinity : other;
          if (j == 3) return i == 0 ? kNan : other;
          if (j == 4) return i == last ? 3e38 : other;
          if (j == 5) return 1e-44;
          return other;
        }));
        const Guarded scales = random_matrix(2, kSlots, DType::fp32, 3);
        const Dense before = scales.read();
        operators().fp8_scales(amaxes, largest_finite(type), margin, scales);
        const auto target = static_cast<float>(largest_finite(type) / std::exp2(margin));
        const Dense history = amaxes.read();
        const Dense after = scales.read();
        for (std::int64_t j = 0; j < kSlots; ++j) {
          float m = 0;
          for (std::int64_t i = 0; i < steps; ++i) m = std::fmax(m, static_cast<float>(history(i, j)));
          const bool stays = j >= 1 && j <= 3;
          const float s = stays ? static_cast<float>(before(0, j))
                                : std::fmin(target / m, std::numeric_limits<float>::max());
          EXPECT_EQ(after(0, j), s) << "slot " << j << " of " << steps << " steps, margin " << margin;
          EXPECT_EQ(after(1, j), stays ? before(1, j) : static_cast<double>(1 / s)) << "slot " << j;
        }
        EXPECT_TRUE(scales.intact());
      }
    }
  }
}

TEST(Fp8, TransposeOfAnySize) {
  constexpr std::int64_t kSizes[][2] = {{1, 1},    {16, 16}, {17, 33},   {64, 128}, {130, 70}, {1, 100},
                                        {200, 3},  {15, 16}, {16, 15},   {65, 64},  {256, 48}, {5, 1000},
                                        {77, 129}, {0, 5},   {256, 384}, {261, 300}};
  for (const DType type : kFp8Types) {
    for (const auto& size : kSizes) {
      const Guarded x(size[0], size[1], type);
      auto* bytes = x.matrix().as<std::uint8_t>();
      for (std::int64_t i = 0; i < size[0] * size[1]; ++i) {
        bytes[i] = static_cast<std::uint8_t>(random_integer(0, 255));  // infinities and NaN among them
      }
      const Guarded y(size[1], size[0], type);
      operators().fp8_transpose(x, y);
      const auto* found = y.matrix().as<std::uint8_t>();
      int wrong = 0;
      for (std::int64_t i = 0; i < size[0]; ++i) {
        for (std::int64_t j = 0; j < size[1]; ++j) {
          wrong += found[j * size[0] + i] == bytes[i * size[1] + j] ? 0 : 1;
        }
      }
      EXPECT_EQ(wrong, 0) << size[0] << "x" << size[1];
      EXPECT_TRUE(y.intact()) << size[0] << "x" << size[1];
    }
  }
}

/// Bytes of x that are not those of y transposed.
int not_transposed(const Matrix& x, const Matrix& y) {
  int wrong = 0;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    for (std::int64_t j = 0; j < x.cols; ++j)
      wrong += *static_cast<std::uint8_t*>(x.at(i, j)) == *static_cast<std::uint8_t*>(y.at(j, i)) ? 0 : 1;
  }
  return wrong;
}

// Whole tiles and parts of them, rows at every boundary, with the codes as they lie and without.
TEST(Fp8, QuantizeWithTheTransposeIsBothOperatorsAtOnce) {
  constexpr std::int64_t kSizes[][2] = {{1, 1},   {3, 37},    {16, 16},  {130, 70},  {1, 100},
                                        {200, 3}, {65, 64},   {5, 300},  {128, 128}, {256, 384},
                                        {0, 5},   {261, 300}, {129, 260}};
  for (const DType type : kFp8Types) {
    for (const DType storage : element_types()) {
      for (const auto& size : kSizes) {
        for (const std::int64_t gap : {0, 8, 3}) {
          const std::string what =
              fmt::format("{}x{} {} gap {} to {}", size[0], size[1], name_of(storage), gap, name_of(type));
          const Guarded wide = random_matrix(size[0], size[1] + gap, storage, 0, 100);
          const Matrix x = wide.matrix().columns(gap / 2, size[1]);
          const Dense all = wide.read();
          const Dense values = dense(size[0], size[1], [&](auto i, auto j) { return all(i, gap / 2 + j); });
          const float scale = type == DType::fp8_e4m3 ? 1.7F : 300.0F;  // some are too large
          const Guarded scales = scales_of(scale);
          const Guarded amax = number(0.5);
          const Guarded y(size[0], size[1], type);
          const Guarded turned(size[1], size[0], type);
          operators().fp8_quantize_transpose(x, scales, amax, y, turned);
          expect_codes(y, values, scale, what);
          EXPECT_EQ(not_transposed(y, turned), 0) << what;
          EXPECT_EQ(amax.read()(0, 0), std::fmax(0.5, largest_size(values))) << what;
          EXPECT_TRUE(turned.intact() && amax.intact() && scales.intact()) << what;
          const Guarded alone(size[1], size[0], type);
          operators().fp8_quantize_transpose(x, scales, {}, {}, alone);
          EXPECT_EQ(alone.bytes(), turned.bytes()) << what << ", the transpose alone";
        }
      }
    }
  }
  Guarded x(3, 37, DType::fp32);
  x.write(dense(3, 37, [&](auto i, auto j) { return i == 1 && j == 35 ? kNan : 2; }));
  const Guarded amax = number(1);
  operators().fp8_quantize_transpose(x, scales_of(1), amax, {}, Guarded(37, 3, DType::fp8_e5m2));
  EXPECT_TRUE(std::isnan(amax.read()(0, 0)));
}

TEST(Fp8, DisagreementsThrow) {
  Operators& op = operators();
  const Guarded x(4, 5, DType::fp32);
  const Guarded y(4, 5, DType::fp8_e4m3);
  const Guarded turned(5, 4, DType::fp8_e4m3);
  const Guarded one = number(1);
  const Guarded scales = scales_of(1);
  EXPECT_THROW(op.fp8_quantize(x, scales, {}, turned), Error);
  EXPECT_THROW(op.fp8_quantize(x, scales, {}, Guarded(4, 5, DType::uint8)), Error);
  EXPECT_THROW(op.fp8_quantize(x, scales, {}, Guarded(4, 5, DType::fp8_e4m3, 3)), Error);
  EXPECT_THROW(op.fp8_quantize(y, scales, {}, y), Error);
  EXPECT_THROW(op.fp8_quantize(x, one, {}, y), Error);
  EXPECT_THROW(op.fp8_quantize(x, scales, x, y), Error);
  EXPECT_THROW(op.fp8_amax(y, one), Error);
  EXPECT_THROW(op.fp8_amax(x, Guarded(1, 1, DType::bf16)), Error);
  EXPECT_THROW(op.fp8_scales(x, 448, 0, scales), Error);
  EXPECT_THROW(op.fp8_scales(one, 0, 0, scales), Error);
  EXPECT_THROW(op.fp8_scales(one, 448, -1, scales), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(x, scales, {}, y, y), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(x, scales, {}, turned, turned), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(x, scales, {}, y, Guarded(5, 4, DType::fp8_e5m2)), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(x, scales, {}, y, Guarded(5, 4, DType::fp8_e4m3, 3)), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(x, one, {}, {}, turned), Error);
  EXPECT_THROW(op.fp8_quantize_transpose(y, scales, {}, {}, turned), Error);
  EXPECT_THROW(op.fp8_transpose(y, y), Error);
  EXPECT_THROW(op.fp8_transpose(y, Guarded(5, 4, DType::fp8_e5m2)), Error);
  EXPECT_THROW(op.fp8_transpose(x, Guarded(5, 4, DType::fp32)), Error);
}

}  // namespace
}  // namespace plumbline::test
