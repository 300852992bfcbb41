// Whole-number arithmetic of shell scripts: $(( ... )), (( ... )), let.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace plumbline {

struct ShellNumber {
  std::int64_t value = 0;
  std::map<std::string, std::int64_t> assigned{};  // variables that the expression sets
};

/// The value of an expression as bash has it: `variable` is asked for "NAME" and "NAME[2]". Nothing for any
/// other text, for a variable of which it gives nothing or no number, for overflow, division by zero and
/// shifts by a count that no number has.
std::optional<ShellNumber> shell_arithmetic(
    std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& variable);

}  // namespace plumbline
