// A value of a JSON text as it was written.
#pragma once

#include <string_view>

namespace plumbline {

/// The characters of the number, text or null that `key` has in `object`, the text of one valid JSON object;
/// of its last such key, as readers of JSON take it. Empty: no such key. Unlike the parsed value it keeps
/// digits that no double has, and escapes.
std::string_view written_value(std::string_view object, std::string_view key);

}  // namespace plumbline
