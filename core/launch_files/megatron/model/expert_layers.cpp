#include "core/launch_files/megatron/model/expert_layers.hpp"

#include <charconv>
#include <optional>
#include <string_view>

namespace plumbline {
namespace {

constexpr std::size_t kMostEntries = 10'000;

class NumberList {
 public:
  explicit NumberList(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> read() {
    std::vector<std::int64_t> all;
    do {
      if (!term(all)) return std::nullopt;
    } while (take('+') || take(','));
    return at_ == text_.size() ? std::optional(all) : std::nullopt;
  }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::int64_t> number() {
    std::int64_t value{};
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }
  /// A number, or a list in square brackets and how often it is repeated.
  bool term(std::vector<std::int64_t>& all) {
    std::vector<std::int64_t> list;
    if (take('[')) {
      do {
        const auto value = number();
        if (!value) return false;
        list.push_back(*value);
      } while (take(','));
      if (!take(']')) return false;
    } else {
      const auto value = number();
      if (!value) return false;
      list.push_back(*value);
    }
    std::int64_t times = 1;
    if (take('*')) times = number().value_or(-1);
    if (times < 0) return false;
    for (std::int64_t i = 0; i < times; ++i) {
      all.insert(all.end(), list.begin(), list.end());
      if (all.size() > kMostEntries) return false;
    }
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::int64_t> expert_layers(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) {
    if (!text.empty()) text += ',';
    for (const char c : value)
      if (c != ' ' && c != '(' && c != ')') text += c;
  }
  return NumberList(text).read().value_or(std::vector<std::int64_t>());
}

}  // namespace plumbline
