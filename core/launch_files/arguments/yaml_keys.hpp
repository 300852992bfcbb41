// Keys at the top of a YAML text, found without reading it.
#pragma once

#include <string_view>

namespace plumbline {

/// A line begins with the key.
inline bool has_yaml_key(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    if ((at == 0 || text[at - 1] == '\n') && end < text.size() && text[end] == ':') return true;
  }
  return false;
}

}  // namespace plumbline
