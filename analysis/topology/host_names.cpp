#include "analysis/topology/host_names.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestName = 255;
constexpr std::size_t kMostDigits = 9;

/// Reads one list from front to back.
class HostList {
 public:
  HostList(std::string_view text, const std::string& origin, std::size_t most)
      : text_(text), origin_(origin), most_(most) {}

  std::vector<std::string> read() {
    std::vector<std::string> all;
    while (true) {
      std::vector<std::string> names = read_names(most_ - all.size());
      all.insert(all.end(), std::make_move_iterator(names.begin()), std::make_move_iterator(names.end()));
      if (at_ == text_.size()) return all;
      ++at_;  // the comma
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    throw InputError(fmt::format("{}: found host list {}, expected {}", origin_, printable(text_), expected));
  }

  static bool of_a_name(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.';
  }

  /// Up to the next comma outside brackets.
  std::vector<std::string> read_names(std::size_t most) {
    std::vector<std::string> names(1);
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',') {
      const char c = text_[at_++];
      if (c == '[') {
        names = extended(names, read_numbers(most), most);
      } else if (of_a_name(c)) {
        for (std::string& name : names) name += c;
      } else {
        refuse("letters, digits, '-', '_', '.', and numbers in brackets");
      }
      if (names.front().size() > kLongestName)
        refuse(fmt::format("names of at most {} letters", kLongestName));
    }
    if (at_ == begin) refuse("a name between commas");
    if (names.size() > most) refuse(fmt::format("at most {} hosts", most_));
    return names;
  }

  std::vector<std::string> extended(const std::vector<std::string>& names,
                                    const std::vector<std::string>& numbers, std::size_t most) const {
    if (names.size() * numbers.size() > most) refuse(fmt::format("at most {} hosts", most_));
    std::vector<std::string> all;
    all.reserve(names.size() * numbers.size());
    for (const std::string& name : names) {
      for (const std::string& number : numbers) all.push_back(name + number);
    }
    return all;
  }

  /// "01-04,7]" behind a bracket.
  std::vector<std::string> read_numbers(std::size_t most) {
    std::vector<std::string> numbers;
    while (true) {
      const auto [first, width] = read_number();
      std::int64_t last = first;
      if (at_ < text_.size() && text_[at_] == '-') {
        ++at_;
        last = read_number().first;
      }
      if (last < first) refuse("ranges that run upwards");
      if (static_cast<std::size_t>(last - first) >= most - std::min(most, numbers.size()))
        refuse(fmt::format("at most {} hosts", most_));
      for (std::int64_t number = first; number <= last; ++number)
        numbers.push_back(fmt::format("{:0{}}", number, width));
      if (at_ == text_.size()) refuse("brackets that close");
      const char c = text_[at_++];
      if (c == ']') return numbers;
      if (c != ',') refuse("numbers and ranges in brackets, separated by commas");
    }
  }

  /// A number and how many digits it is written with.
  std::pair<std::int64_t, std::size_t> read_number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == begin || at_ - begin > kMostDigits)
      refuse("numbers and ranges in brackets, separated by commas");
    std::int64_t number = 0;
    std::from_chars(text_.data() + begin, text_.data() + at_, number);
    return {number, at_ - begin};
  }

  std::string_view text_;
  const std::string& origin_;
  std::size_t most_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list, const std::string& origin, std::size_t most) {
  return HostList(list, origin, most).read();
}

}  // namespace plumbline
