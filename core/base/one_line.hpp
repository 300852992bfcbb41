// Text that somebody else wrote, made fit for a line of a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// A value as it can stand in a message: what a terminal obeys or turns around (control characters, escapes,
/// marks of writing direction) and what is not UTF-8 is replaced by '?'; at most `max_bytes`, then "...".
std::string printable(std::string_view text, std::size_t max_bytes = 60);

/// A whole message as one line: the same, but line breaks and the blanks around them become one blank, and of
/// what is too long the middle is left out: the end says what was expected.
std::string one_line(std::string_view text, std::size_t max_bytes = 2000);

}  // namespace plumbline
