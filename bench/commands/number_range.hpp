// Range of an option's number.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>

#include "core/base/one_line.hpp"

namespace plumbline {

/// Refuses all but numbers from `least` to `most`. CLI::Range takes NaN and prints up to 309 digits; whole
/// numbers of CLI11 may be octal, or "true", and are cut to 64 bits.
template <class T>
CLI::Validator number_from(T least, T most) {
  constexpr bool kWhole = std::is_integral_v<T>;
  const auto shown = [](T number) {
    if constexpr (kWhole)
      return fmt::format("{}", number);
    else
      return fmt::format("{:g}", number);
  };
  const std::string expected =
      fmt::format("a {} from {} to {}", kWhole ? "whole number" : "number", shown(least), shown(most));
  return {[=](std::string& text) {
            T number{};
            const bool read =
                CLI::detail::lexical_cast(text, number) && (!kWhole || text == fmt::format("{}", number));
            if (read && number >= least && number <= most) return std::string();
            return fmt::format("found {}, expected {}", printable(text), expected);
          },
          fmt::format("{} in [{} - {}]", CLI::detail::type_name<T>(), shown(least), shown(most))};
}

}  // namespace plumbline
