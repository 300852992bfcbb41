// Whole-number arithmetic of shell scripts: $(( ... )).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline {

/// The value of an expression of numbers, variables (with or without $), + - * / % and brackets. Nothing for
/// any other, for an unknown variable, overflow, or division by zero.
std::optional<std::int64_t> shell_arithmetic(
    std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& variable);

}  // namespace plumbline
