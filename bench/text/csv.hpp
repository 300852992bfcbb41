// Comma-separated values.
#pragma once

#include <string>

namespace plumbline {

/// A field as RFC 4180 writes it: in quotes where it holds a comma, a quote or a line break.
inline std::string csv_field(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string out = "\"";
  for (const char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

}  // namespace plumbline
