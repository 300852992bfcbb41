// Words as a shell reads them back.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Any word, quoted for a shell.
inline std::string shell_word(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace plumbline
