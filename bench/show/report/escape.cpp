#include "bench/show/report/escape.hpp"

#include <nlohmann/json.hpp>

#include "core/base/escaped_controls.hpp"

namespace plumbline {
namespace {

/// The text with invalid UTF-8 replaced, as the JSON library writes it, without quotes and escapes.
std::string valid_utf8(std::string_view text) {
  using Json = nlohmann::json;
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += c == '\n' || c == '\t' ? std::string(1, c) : "\xef\xbf\xbd";
        } else {
          out += c;
        }
    }
  }
  return escaped_controls(out);
}

std::string json_for_script(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return escaped_controls(out);
}

std::string base64(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    const std::uint32_t three = static_cast<std::uint32_t>(bytes[i]) << 16 |
                                (left > 1 ? static_cast<std::uint32_t>(bytes[i + 1]) << 8 : 0) |
                                (left > 2 ? static_cast<std::uint32_t>(bytes[i + 2]) : 0);
    out += kDigits[three >> 18 & 63];
    out += kDigits[three >> 12 & 63];
    out += left > 1 ? kDigits[three >> 6 & 63] : '=';
    out += left > 2 ? kDigits[three & 63] : '=';
  }
  return out;
}

}  // namespace plumbline
