// Numbers that carry their unit in the type: bytes, seconds, FLOPs and their rates.
#pragma once

#include <compare>
#include <cstdint>

namespace plumbline {

/// A number of one unit. Same-unit sums and comparisons, scaling by a plain number; anything else must be
/// spelled out below or does not compile.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  friend constexpr auto operator<=>(Quantity,
                                    Quantity) = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return {a.value * factor}; }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return {a.value * factor}; }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) { return {a.value / divisor}; }
  constexpr Quantity& operator+=(Quantity other) { return *this = *this + other; }
  constexpr Quantity& operator-=(Quantity other) { return *this = *this - other; }
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Seconds = Quantity<struct SecondsTag, double>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) {
  return {static_cast<double>(amount.value) / rate.value};
}
constexpr Seconds operator/(Flops work, FlopsPerSecond rate) {
  return {work.value / rate.value};
}
constexpr BytesPerSecond operator/(Bytes amount, Seconds time) {
  return {static_cast<double>(amount.value) / time.value};
}
constexpr FlopsPerSecond operator/(Flops work, Seconds time) {
  return {work.value / time.value};
}
/// The ratio of two times is a plain number.
constexpr double operator/(Seconds a, Seconds b) {
  return a.value / b.value;
}

constexpr Bytes kKiB{std::int64_t{1} << 10};
constexpr Bytes kMiB{std::int64_t{1} << 20};
constexpr Bytes kGiB{std::int64_t{1} << 30};
/// For fractional sizes.
constexpr double kBytesPerGiB = static_cast<double>(kGiB.value);

}  // namespace plumbline
