// Files that a fuzzer writes for readers that take paths.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace plumbline::fuzz {

/// A folder in memory, for the whole run of a fuzzer.
inline const test::TemporaryFolder& scratch() {
  static const test::TemporaryFolder folder("/dev/shm");
  return folder;
}

/// The parts of an input between lines "---".
inline std::vector<std::string> parts_of(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kCut = "\n---\n";
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts;
  for (std::size_t cut = rest.find(kCut); cut != std::string_view::npos; cut = rest.find(kCut)) {
    parts.emplace_back(rest.substr(0, cut));
    rest.remove_prefix(cut + kCut.size());
  }
  parts.emplace_back(rest);
  return parts;
}

}  // namespace plumbline::fuzz
