#include "core/launch_files/shell/shell_test.hpp"

#include <charconv>
#include <cstdint>

namespace plumbline {
namespace {

constexpr int kDeepestTest = 40;

std::optional<std::int64_t> test_number(const ShellWord& word) {
  std::int64_t number{};
  const char* const stop = word.text.data() + word.text.size();
  const auto [end, error] = std::from_chars(word.text.data(), stop, number);
  return word.known && error == std::errc() && end == stop ? std::optional(number) : std::nullopt;
}

class ShellTest {
 public:
  explicit ShellTest(const std::vector<ShellWord>& words) : words_(words) {}
  Truth value() {
    const Truth found = any();
    return at_ == words_.size() ? found : Truth::unknown;
  }

 private:
  bool take(std::string_view text) {
    if (at_ >= words_.size() || words_[at_].text != text || words_[at_].quoted) return false;
    ++at_;
    return true;
  }

  Truth any() {
    if (++depth_ > kDeepestTest) return Truth::unknown;
    Truth truth = all();
    while (take("||") || take("-o")) {
      const Truth more = all();
      const bool decided = truth != Truth::unknown && more != Truth::unknown;
      const bool yes = truth == Truth::yes || more == Truth::yes;
      truth = yes ? Truth::yes : decided ? Truth::no : Truth::unknown;
    }
    --depth_;
    return truth;
  }

  Truth all() {
    Truth truth = one();
    while (take("&&") || take("-a")) {
      const Truth more = one();
      const bool decided = truth != Truth::unknown && more != Truth::unknown;
      const bool no = truth == Truth::no || more == Truth::no;
      truth = no ? Truth::no : decided ? Truth::yes : Truth::unknown;
    }
    return truth;
  }

  Truth one() {
    bool negated = false;
    while (take("!")) negated = !negated;
    Truth truth = Truth::unknown;
    if (take("(")) {
      truth = any();
      if (!take(")")) return Truth::unknown;
    } else {
      truth = simple();
    }
    return negated ? not_of(truth) : truth;
  }

  Truth simple() {
    if (at_ >= words_.size()) return Truth::unknown;
    const ShellWord& first = words_[at_++];
    const bool operation = !first.quoted && first.text.size() == 2 && first.text[0] == '-';
    if (operation && at_ < words_.size()) {
      const ShellWord& second = words_[at_++];
      if (!second.known || (first.text != "-z" && first.text != "-n")) return Truth::unknown;
      return truth_of(second.text.empty() == (first.text == "-z"));
    }
    if (at_ + 1 < words_.size()) {
      const std::string& sign = words_[at_].text;
      for (const std::string_view known :
           {"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~", "<", ">"}) {
        if (sign == known) {
          at_ += 2;
          return compare(first, sign, words_[at_ - 1]);
        }
      }
    }
    if (!first.known) return Truth::unknown;
    return truth_of(!first.text.empty());
  }

  static Truth compare(const ShellWord& a, std::string_view sign, const ShellWord& b) {
    if (!a.known || !b.known) return Truth::unknown;
    if (sign == "=" || sign == "==")
      return truth_of(b.quoted ? a.text == b.text : matches_pattern(a.text, b.text));
    if (sign == "!=") return truth_of(b.quoted ? a.text != b.text : !matches_pattern(a.text, b.text));
    const auto left = test_number(a);
    const auto right = test_number(b);
    if (!left || !right) return Truth::unknown;
    if (sign == "-eq") return truth_of(*left == *right);
    if (sign == "-ne") return truth_of(*left != *right);
    if (sign == "-lt") return truth_of(*left < *right);
    if (sign == "-le") return truth_of(*left <= *right);
    if (sign == "-gt") return truth_of(*left > *right);
    if (sign == "-ge") return truth_of(*left >= *right);
    return Truth::unknown;
  }

  const std::vector<ShellWord>& words_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Truth shell_test(const std::vector<ShellWord>& words) {
  return ShellTest(words).value();
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace plumbline
