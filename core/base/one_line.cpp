#include "core/base/one_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/escaped_controls.hpp"

namespace plumbline {
namespace {

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  // 0: not UTF-8
};

/// The first character of a text that is not empty (RFC 3629: no surrogates, no longer form than needed).
Character first_of(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
  char32_t code = lead & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0U) != 0x80) return {};
    code = code << 6 | (next & 0x3fU);
  }
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast.at(bytes) || code > 0x10ffff || surrogate) return {};
  return {code, bytes};
}

/// C0 and C1 controls, separators of lines and paragraphs, and marks of writing direction.
bool obeyed(char32_t code) {
  return code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x200e || code == 0x200f ||
         code == 0x061c || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
         code == 0xfeff;
}

}  // namespace

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const Character next = first_of(text);
    const std::size_t taken = std::max<std::size_t>(next.bytes, 1);
    const std::string_view shown = next.bytes == 0 || obeyed(next.code) ? "?" : text.substr(0, taken);
    if (out.size() + shown.size() > max_bytes) return out + "...";
    out += shown;
    text.remove_prefix(taken);
  }
  return out;
}

std::string escaped_controls(std::string_view text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\t' || c == '\r';
  });
  if (plain) return std::string(text);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_of(text);
    const std::size_t taken = std::max<std::size_t>(next.bytes, 1);
    const bool kept = next.code == '\t' || next.code == '\n' || next.code == '\r' || !obeyed(next.code);
    if (next.bytes == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    } else if (kept) {
      out += text.substr(0, taken);
    } else {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(next.code));
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t max_bytes) {
  constexpr std::string_view kBreaks = "\t\r\n";
  constexpr std::string_view kBlanks = " \t\r\n";
  std::string joined;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(kBreaks), text.size());
    const std::string_view line = text.substr(0, end);
    joined += line.substr(0, line.find_last_not_of(kBlanks) + 1);  // npos + 1: nothing
    text.remove_prefix(end);
    if (text.empty()) break;
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (!text.empty() && !joined.empty()) joined += ' ';
  }
  if (joined.size() <= max_bytes) return printable(joined, joined.size());
  std::string_view tail = std::string_view(joined).substr(joined.size() - max_bytes / 4);
  while (!tail.empty() && (static_cast<unsigned char>(tail.front()) & 0xc0U) == 0x80) tail.remove_prefix(1);
  return printable(joined, max_bytes - max_bytes / 4) + printable(tail, tail.size());
}

}  // namespace plumbline
