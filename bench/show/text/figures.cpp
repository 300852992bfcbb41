#include "bench/show/text/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace plumbline {
namespace {

std::string with_commas(std::string text) {
  const std::size_t first = text.front() == '-' ? 1 : 0;
  const std::size_t whole = std::min(text.find('.'), text.size());
  for (std::size_t at = whole; at > first + 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace

std::string readable_time(double seconds) {
  if (std::abs(seconds) < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (std::abs(seconds) < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string readable_number(double value) {
  if (!std::isfinite(value) || value == 0) return value == 0 ? "0" : fmt::format("{}", value);
  constexpr int kSignificant = 4;
  const int magnitude = static_cast<int>(std::floor(std::log10(std::abs(value))));
  const double unit = std::pow(10.0, magnitude - kSignificant + 1);
  const int digits = std::clamp(kSignificant - 1 - magnitude, 0, 12);
  const double rounded = digits > 0 ? value : std::round(value / unit) * unit;
  std::string text = fmt::format("{:.{}f}", rounded, digits);
  if (digits > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return with_commas(std::move(text));
}

std::string grouped_digits(double value) {
  return with_commas(fmt::format("{:.0f}", value));
}

std::string prefixed_number(double value) {
  constexpr std::pair<double, const char*> kPrefixes[] = {
      {1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}, {1, ""}, {1e-3, " m"}, {1e-6, " µ"}, {1e-9, " n"}};
  if (value == 0 || !std::isfinite(value) || (std::abs(value) >= 1e-2 && std::abs(value) < 1e4))
    return fmt::format("{:g}", value);
  for (const auto& [size, name] : kPrefixes) {
    if (std::abs(value) >= size) return fmt::format("{:g}{}", value / size, name);
  }
  return fmt::format("{:g} n", value / 1e-9);
}

std::string readable_percent(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= least * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

}  // namespace plumbline
