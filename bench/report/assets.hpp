// The style sheet and the script of the report page, built into the program (assets/, embed.cmake).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plumbline {

struct Asset {
  std::string_view text;
  std::span<const std::uint8_t> sha256;  // of the text, for the page's content policy
};

Asset report_style();
Asset report_script();

}  // namespace plumbline
