// Text in lines of a given width.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// The words of `text`, every line indented and at most `width` columns long; a longer word has a line of its
/// own. Ends with a line break. A column is a UTF-8 character.
std::string wrapped(std::string_view text, std::size_t width, std::size_t indent);

/// Columns that `text` takes.
std::size_t columns_of(std::string_view text);

}  // namespace plumbline
