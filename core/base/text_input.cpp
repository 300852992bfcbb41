#include "core/base/text_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"

namespace plumbline {

std::string read_text_file(const std::string& path, std::size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw InputError(fmt::format("{}: no such file; expected a readable file", printable(path, 400)));
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(fmt::format("{}: not a regular file; expected a text file", printable(path, 400)));
  }
  const auto too_large = [&] {
    return InputError(
        fmt::format("{}: larger than {} bytes, the limit of such a file", printable(path, 400), max_bytes));
  };
  if (const auto size = std::filesystem::file_size(path, error); !error && size > max_bytes)
    throw too_large();
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw InputError(fmt::format("{}: cannot be read: {}", printable(path, 400), std::strerror(errno)));
  }
  // Piece by piece: the limit may be far above what most files hold, and some do not know their size (/proc).
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::string text;
  while (in && text.size() <= max_bytes) {
    const std::size_t begin = text.size();
    text.resize(begin + std::min(kPiece, max_bytes + 1 - begin));
    in.read(text.data() + begin, static_cast<std::streamsize>(text.size() - begin));
    text.resize(begin + static_cast<std::size_t>(in.gcount()));
  }
  if (text.size() > max_bytes) throw too_large();
  return text;
}

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& known) {
  constexpr std::size_t kLongest = 128;  // the distance takes time in proportion to the length
  name = name.substr(0, kLongest);
  std::string_view best;
  std::size_t best_distance = std::string_view::npos;
  for (const std::string_view candidate : known) {
    // The distance is at least the difference of the lengths.
    const std::size_t longer = std::max(name.size(), candidate.size());
    if (longer - std::min(name.size(), candidate.size()) >= best_distance) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

Bytes parse_bytes(const std::string& text, const std::string& key) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
  };
  double number = NAN;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && std::isfinite(number) && number >= 0) {
    std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    while (unit.starts_with(' ')) unit.remove_prefix(1);
    for (const auto& [name, factor] : kUnits) {
      if (unit != name || number * factor >= 0x1p60) continue;
      const Bytes bytes{std::llround(number * factor)};
      // Less than half a byte would round to 0, which means no bound at all.
      if (bytes.value > 0 || number == 0) return bytes;
    }
  }
  const bool bare_letter =
      !text.empty() && std::string_view("kKMGT").find(text.back()) != std::string_view::npos;
  const std::string hint = bare_letter ? fmt::format("; write {0}iB or {0}B", printable(text)) : "";
  throw InputError(fmt::format("{}: found \"{}\", expected bytes such as 512MiB, 2GiB, 80GB or 1e9{}", key,
                               printable(text), hint));
}

}  // namespace plumbline
