// Data files that are part of the program, so that it works from any folder; cmake/embed.cmake makes them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace plumbline {

struct EmbeddedFile {
  std::string_view name;  // without its folder
  std::string_view text;
  std::array<std::uint8_t, 32> sha256;  // of the text
};

/// The text of the file of this name; empty when there is none.
inline std::string_view embedded_text(std::span<const EmbeddedFile> files, std::string_view name) {
  for (const EmbeddedFile& file : files) {
    if (file.name == name) return file.text;
  }
  return {};
}

}  // namespace plumbline
