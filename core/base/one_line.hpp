// Escapes foreign text for a line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// A value made printable for a message. Control characters, escapes, marks of writing direction and bytes
/// that are not UTF-8 become '?'; at most `max_bytes`, then "...".
std::string printable(std::string_view text, std::size_t max_bytes = 60);

/// A whole message as one line: the same, but line breaks and the blanks around them become one blank. Too
/// long a message loses its middle, because the end says what was expected.
std::string one_line(std::string_view text, std::size_t max_bytes = 2000);

}  // namespace plumbline
