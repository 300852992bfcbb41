// Comma-separated values.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/escaped_controls.hpp"

namespace plumbline {

/// True if a spreadsheet would take the text for a formula: it begins as one and is no number.
inline bool looks_like_formula(std::string_view text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text.front()) == std::string_view::npos) return false;
  const char* const end = text.data() + text.size();
  const char* const begin = text.data() + (text.front() == '+' ? 1 : 0);
  double number = 0;
  const auto [at, error] = std::from_chars(begin, end, number);
  return error != std::errc() || at != end;
}

/// A field as RFC 4180 writes it: in quotes where it holds a comma, a quote or a line break. Names come from
/// users. A formula gets an apostrophe in front, so that spreadsheets show it as text; control characters of
/// terminals are escaped.
inline std::string csv_field(const std::string& field) {
  const std::string safe = escaped_controls(field);
  std::string shown = looks_like_formula(safe) ? "'" + safe : safe;
  if (shown.find_first_of(",\"\r\n") == std::string::npos) return shown;
  std::string out = "\"";
  for (const char c : shown) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

}  // namespace plumbline
