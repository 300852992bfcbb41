#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "bench/ask/size_answer.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

/// The number before one of the suffixes, times its factor; nothing: none.
template <std::size_t Count>
std::optional<double> scaled_number(std::string_view text, const Suffix (&suffixes)[Count]) {
  double factor = 1;
  for (const Suffix& suffix : suffixes) {
    if (!text.ends_with(suffix.text)) continue;
    text.remove_suffix(suffix.text.size());
    factor = suffix.factor;
    break;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || !std::isfinite(number) ||
      number <= 0)
    return {};
  return number * factor;
}

[[noreturn]] void refuse_text(const std::string& option, std::string_view found, std::string_view expected) {
  throw InputError(fmt::format("{}: found {}, expected {}", option, printable(std::string(found)), expected));
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

double parse_tokens(const std::string& text, const std::string& option) {
  constexpr Suffix kSuffixes[] = {{"T", 1e12}, {"B", 1e9}, {"M", 1e6}};
  const auto tokens = scaled_number(text, kSuffixes);
  if (!tokens || *tokens < 1) refuse_text(option, text, "tokens, such as 2T, 300B or 5e11");
  return *tokens;
}

double parse_duration(const std::string& text, const std::string& option) {
  constexpr Suffix kSuffixes[] = {{"min", 60}, {"h", 3600}, {"s", 1}};
  const auto seconds = scaled_number(text, kSuffixes);
  if (!seconds) refuse_text(option, text, "a time, such as 30s or 2min");
  return *seconds;
}

BatchRange parse_batch(const std::string& text, const std::string& option) {
  const std::vector<std::string_view> ends = split(text, ':');
  BatchRange range{0, 0};
  const auto read = [&](std::string_view end) {
    int number = 0;
    const auto [stop, error] = std::from_chars(end.data(), end.data() + end.size(), number);
    return !end.empty() && error == std::errc() && stop == end.data() + end.size() ? number : 0;
  };
  if (ends.size() <= 2) range = {read(ends.front()), read(ends.back())};
  if (range.least < 1 || range.most < range.least)
    refuse_text(option, text, "sequences of a step, such as 2048, or a range, such as 512:2048");
  return range;
}

std::vector<HardwarePrice> parse_prices(const std::string& text, const std::string& option) {
  constexpr Suffix kSuffixes[] = {{"/h", 1}};
  std::vector<HardwarePrice> prices;
  for (const std::string_view each : split(text, ',')) {
    const std::vector<std::string_view> sides = split(each, '=');
    const auto price = sides.size() == 2 ? scaled_number(sides.back(), kSuffixes) : std::nullopt;
    if (!price || sides.front().empty())
      refuse_text(option, each, "an accelerator's price of a GPU-hour, such as h100=2.5/h");
    prices.push_back({std::string(sides.front()), *price});
  }
  return prices;
}

}  // namespace plumbline
