#include "bench/run/recovery/failure_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::pair<std::string_view, Injected>, 3> kKinds = {
    {{"kill", Injected::kill}, {"hang", Injected::hang}, {"disk", Injected::disk}}};
constexpr std::array<std::pair<std::string_view, double>, 4> kUnitsOfTime = {
    {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

[[noreturn]] void refuse(std::string_view found, const char* expected) {
  throw InputError(fmt::format("--inject-failures: found \"{}\", expected {}", printable(found), expected));
}

Seconds read_time(std::string_view text) {
  const char* const expected = "a time from 10ms to 1000h, such as 30s or 5min";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto* const found = std::find_if(kUnitsOfTime.begin(), kUnitsOfTime.end(),
                                         [&](const auto& each) { return each.first == unit; });
  if (error != std::errc() || found == kUnitsOfTime.end()) refuse(text, expected);
  const double seconds = number * found->second;
  if (!(seconds >= 0.01 && seconds <= 3.6e6)) refuse(text, expected);
  return {seconds};
}

Injected read_kind(std::string_view text) {
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const auto& each) { return each.first == text; });
  if (found == kKinds.end()) refuse(text, "kill, hang or disk");
  return found->second;
}

std::uint64_t read_number(std::string_view text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size() || seed >> 63U != 0)
    refuse(text, "a whole number");
  return seed;
}

}  // namespace

std::string_view name_of(Injected kind) {
  return kKinds[static_cast<std::size_t>(kind)].first;
}

FailureSpec parse_failure_spec(const std::string& text) {
  FailureSpec spec;
  std::string_view rest = text;
  std::string_view key;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view value = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const std::size_t equals = value.find('=');
    if (equals != std::string_view::npos) {
      key = value.substr(0, equals);
      value.remove_prefix(equals + 1);
      if (key == "kinds") spec.kinds.clear();
    } else if (key != "kinds") {
      refuse(value, "KEY=VALUE, such as mtbf=30s,kinds=kill,hang");
    }
    if (key == "mtbf") {
      spec.mtbf = read_time(value);
    } else if (key == "replacement") {
      spec.replacement = read_time(value);
    } else if (key == "hang_timeout") {
      spec.hang_timeout = read_time(value);
    } else if (key == "kinds") {
      spec.kinds.push_back(read_kind(value));
    } else if (key == "seed") {
      spec.seed = read_number(value);
    } else if (key == "most") {
      spec.most = read_number(value);
    } else {
      refuse(key, "one of the keys mtbf, kinds, seed, most, replacement, hang_timeout");
    }
  }
  if (spec.mtbf.value <= 0) refuse(text, "mtbf=TIME, such as mtbf=30s");
  return spec;
}

}  // namespace plumbline
