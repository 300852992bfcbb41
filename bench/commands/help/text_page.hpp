// A page of the manual for a terminal.
#pragma once

#include <string>

#include "bench/commands/help/page.hpp"

namespace plumbline {

struct TextStyle {
  std::size_t width = 80;  // columns; at least 40
  bool color = false;      // headings and names in bold
};

/// 80 columns, or those of the terminal behind standard output up to 100.
TextStyle text_style_of_standard_output();

std::string text_page(const Page& page, const TextStyle& style);

/// In bold where `style` has colour.
std::string emphasized(const std::string& text, const TextStyle& style);

}  // namespace plumbline
