// The list of arguments that a run of Megatron-LM prints: "  num_layers ............ 32".
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/megatron/megatron_names.hpp"
#include "core/launch_files/megatron/megatron_script.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kFewestLines = 10;
constexpr std::size_t kMostLines = 100'000;  // a list has about 600
constexpr std::size_t kLongestLine = std::size_t{1} << 16;
constexpr std::string_view kDots = " ...";

/// Name and value of a line, without what a job puts in front of it ("0: ").
bool split_line(std::string_view line, std::string& name, std::string& value) {
  const std::size_t dots = line.find(kDots);
  if (dots == std::string_view::npos || dots == 0) return false;
  const std::size_t begin = line.find_last_of(" \t:", dots - 1);
  name = line.substr(begin == std::string_view::npos ? 0 : begin + 1,
                     dots - (begin == std::string_view::npos ? 0 : begin + 1));
  const std::size_t end = line.find_first_not_of('.', dots + 1);
  if (end == std::string_view::npos || line[end] != ' ') return false;
  value = line.substr(end + 1);
  while (!value.empty() && (value.back() == '\r' || value.back() == ' ')) value.pop_back();
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// The next line with dots, and its number; logs are mostly other lines.
class DottedLines {
 public:
  explicit DottedLines(std::string_view text) : text_(text) {}

  bool next(std::string_view& line) {
    const std::size_t dots = text_.find(kDots, at_);
    if (dots == std::string_view::npos) return false;
    const std::size_t before = dots == 0 ? std::string_view::npos : text_.rfind('\n', dots - 1);
    const std::size_t first = std::max(at_, before == std::string_view::npos ? 0 : before + 1);
    const std::size_t end = std::min(text_.find('\n', dots), text_.size());
    number_ +=
        static_cast<std::int64_t>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                             text_.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
    counted_ = first;
    line = text_.substr(first, std::min(end - first, kLongestLine));
    at_ = std::min(end + 1, text_.size());
    return true;
  }
  std::int64_t number() const { return number_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;       // behind the last line
  std::size_t counted_ = 0;  // line ends before it are in number_
  std::int64_t number_ = 1;
};

}  // namespace

std::optional<FoundArguments> arguments_of_log(std::string_view text, const std::string& name) {
  FoundArguments found;
  DottedLines lines(text);
  std::size_t count = 0;
  std::map<std::string, std::string> before;  // arguments of the list before this one
  std::map<std::string, std::string> given;
  std::string first;
  std::string differs;
  for (std::string_view line; count < kMostLines && lines.next(line);) {
    std::string key;
    std::string value;
    if (!split_line(line, key, value)) continue;
    ++count;
    const std::string place = fmt::format("{}:{}", name, lines.number());
    auto argument = megatron_argument(key, {value}, place);
    if (first.empty() && argument) first = key;
    if (key == first) {  // a job that was started again
      before.swap(given);
      given.clear();
      found.arguments.clear();
    }
    if (const auto other = before.find(key); other != before.end() && other->second != value)
      differs = fmt::format("{}: {} was {} in the list before; the last list counts", place, printable(key),
                            printable(other->second));
    given[key] = value;
    if (key == "world_size") {
      std::int64_t gpus{};
      if (std::from_chars(value.data(), value.data() + value.size(), gpus).ec == std::errc() && gpus > 0 &&
          gpus < (1 << 24))
        found.launcher = {gpus, fmt::format("{}: world_size", place)};
      continue;
    }
    if (argument) found.arguments.push_back(std::move(*argument));
  }
  if (count < kFewestLines) return std::nullopt;
  if (!differs.empty()) found.notes.push_back(std::move(differs));
  return found;
}

}  // namespace plumbline
