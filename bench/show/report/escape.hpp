// Text of unknown origin put into a page.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plumbline {

/// For HTML text and for attribute values in double quotes: & < > " ' become entities, control characters and
/// invalid UTF-8 the replacement character.
std::string html_escaped(std::string_view text);

/// JSON made fit to stand inside a <script> element: no '<', so that nothing in it can end the element.
std::string json_for_script(std::string_view json);

std::string base64(std::span<const std::uint8_t> bytes);

}  // namespace plumbline
