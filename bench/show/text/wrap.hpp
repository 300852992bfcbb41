// Text in lines of a given width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// The words of `text`, every line indented and at most `width` columns long; a longer word has a line of its
/// own. Ends with a line break. A column is a UTF-8 character.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// Lines of prose that are longer than `width` columns go on in the next one, further indented; 0: no limit.
std::string within(std::string_view lines, int width);

/// Within the terminal behind standard output, if it is one.
std::string within_terminal(std::string_view lines);

/// Columns that `text` takes; colours take none.
std::size_t columns_of(std::string_view text);

}  // namespace plumbline
