// Escapes foreign text for output that other programs read.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// The text with control characters, except tabs and line breaks, written as "\u001b", and bytes that are not
/// UTF-8 as "\xff". JSON stays the same JSON.
std::string escaped_controls(std::string_view text);

}  // namespace plumbline
