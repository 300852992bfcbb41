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

/// A word as people paste it: quoted where a shell needs it.
inline std::string pasted_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/:=+@%";
  return !word.empty() && word.find_first_not_of(kPlain) == std::string::npos ? word : shell_word(word);
}

}  // namespace plumbline
