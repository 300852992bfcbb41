#include "analysis/hardware/logs/log_lines.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace plumbline {
namespace {

/// Length of a launcher's tag at the start of the text: digits and commas in brackets, and the stream's name;
/// 0: none.
std::size_t tag_length(std::string_view text) {
  if (!text.starts_with('[')) return 0;
  const std::size_t close = text.find_first_not_of("0123456789,", 1);
  if (close == std::string_view::npos || text[close] != ']' || close == 1) return 0;
  std::size_t length = close + 1;
  for (const std::string_view stream : {"<stdout>:", "<stderr>:", "<stdout>", ":"}) {
    if (!text.substr(length).starts_with(stream)) continue;
    length += stream.size();
    break;
  }
  return length;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > begin) words.push_back(line.substr(begin, end - begin));
  };
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t tag = tag_length(line.substr(at));
    const bool blank = std::isspace(static_cast<unsigned char>(line[at])) != 0;
    if (tag == 0 && !blank) {
      ++at;
      continue;
    }
    end_word(at);
    at += std::max<std::size_t>(tag, 1);
    begin = at;
  }
  end_word(line.size());
  return words;
}

std::optional<double> number_of(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  if (!std::isfinite(number) || number < 0) return std::nullopt;
  return number;
}

bool contains_word(std::string_view text, std::string_view part) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::search(text.begin(), text.end(), part.begin(), part.end(), same) != text.end();
}

}  // namespace plumbline
