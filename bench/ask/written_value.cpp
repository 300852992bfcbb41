#include "bench/ask/written_value.hpp"

#include <algorithm>

#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// The place behind the text that begins at the quote `at`.
std::size_t end_of_text(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\' ? 1 : 0;
  return std::min(at + 1, json.size());
}

/// The place behind the value that begins at `at`; of a list or an object not far behind it.
std::size_t end_of_value(std::string_view json, std::size_t at) {
  return json[at] == '"' ? end_of_text(json, at)
                         : std::min(json.find_first_of(",}] \t\r\n", at), json.size());
}

}  // namespace

std::string_view written_value(std::string_view object, std::string_view key) {
  std::string_view found;
  int depth = 0;
  bool is_key = false;  // the next text
  for (std::size_t at = 0; at < object.size();) {
    const char c = object[at];
    if (c != '"') {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      if (c == '{' || c == ',') is_key = true;
      if (c == ':') is_key = false;
      ++at;
      continue;
    }
    const std::size_t end = end_of_text(object, at);
    const std::string_view text = object.substr(at, end - at);
    at = end;
    if (depth != 1 || !is_key || Json::parse(text, nullptr, false) != key) continue;
    const std::size_t begin = object.find_first_not_of(kBlanks, object.find(':', at) + 1);
    if (begin == std::string_view::npos) break;
    found = object.substr(begin, end_of_value(object, begin) - begin);
  }
  return found;
}

}  // namespace plumbline
