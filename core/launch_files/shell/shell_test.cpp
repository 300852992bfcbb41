#include "core/launch_files/shell/shell_test.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>

namespace plumbline {
namespace {

constexpr int kDeepestTest = 40;

std::optional<std::int64_t> test_number(const std::string& text) {
  std::int64_t number{};
  const char* const stop = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), stop, number);
  return error == std::errc() && end == stop ? std::optional(number) : std::nullopt;
}

bool is_order(std::string_view sign) {
  return sign == "-eq" || sign == "-ne" || sign == "-lt" || sign == "-le" || sign == "-gt" || sign == "-ge";
}

bool is_comparison(std::string_view sign) {
  return is_order(sign) || sign == "=" || sign == "==" || sign == "!=" || sign == "=~" || sign == "<" ||
         sign == ">" || sign == "-nt" || sign == "-ot" || sign == "-ef";
}

Truth order(const std::string& left_text, std::string_view sign, const std::string& right_text) {
  const auto left = test_number(left_text);
  const auto right = test_number(right_text);
  if (!left || !right) return Truth::unknown;
  if (sign == "-eq") return truth_of(*left == *right);
  if (sign == "-ne") return truth_of(*left != *right);
  if (sign == "-lt") return truth_of(*left < *right);
  if (sign == "-le") return truth_of(*left <= *right);
  if (sign == "-gt") return truth_of(*left > *right);
  return truth_of(*left >= *right);
}

Truth unary(std::string_view sign, const std::string& text) {
  if (sign != "-z" && sign != "-n") return Truth::unknown;
  if (!UnknownParts::without(text).empty()) return truth_of(sign == "-n");
  return UnknownParts::known(text) ? truth_of(sign == "-z") : Truth::unknown;
}

Truth filled(const std::string& text) {
  return unary("-n", text);
}

/// Evaluates [ ] by the number of words, as POSIX has it.
Truth bracket(std::span<const std::string> words) {
  if (words.empty()) return Truth::no;
  if (words.size() == 1) return filled(words[0]);
  if (words.size() == 3 && (is_comparison(words[1]) || words[1] == "-a" || words[1] == "-o")) {
    if (words[1] == "-a") return all_of(filled(words[0]), filled(words[2]));
    if (words[1] == "-o") return any_of(filled(words[0]), filled(words[2]));
    if (!UnknownParts::known(words[0]) || !UnknownParts::known(words[2])) return Truth::unknown;
    if (is_order(words[1]) && (words[0].empty() || words[2].empty())) return Truth::no;  // an error
    if (is_order(words[1])) return order(words[0], words[1], words[2]);
    if (words[1] == "=" || words[1] == "==") return truth_of(words[0] == words[2]);
    if (words[1] == "!=") return truth_of(words[0] != words[2]);
    return Truth::unknown;
  }
  if (words[0] == "!" && words.size() <= 4) return not_of(bracket(words.subspan(1)));
  if (words.size() == 2) return unary(words[0], words[1]);
  if (words.size() <= 4) return Truth::unknown;
  // Whole tests joined by -o, each of tests joined by -a.
  for (const char* const joint : {"-o", "-a"}) {
    for (std::size_t i = 2; i + 2 < words.size(); ++i) {
      if (words[i] != joint || is_comparison(words[i - 1]) || is_comparison(words[i + 1])) continue;
      const auto left = bracket(words.first(i));
      const auto right = bracket(words.subspan(i + 1));
      return joint[1] == 'o' ? any_of(left, right) : all_of(left, right);
    }
  }
  return Truth::unknown;
}

class DoubleBracket {
 public:
  explicit DoubleBracket(const std::vector<TestWord>& words) : words_(words) {}
  Truth value() {
    const Truth found = any();
    return at_ == words_.size() ? found : Truth::unknown;
  }

 private:
  bool take(std::string_view text) {
    if (at_ >= words_.size() || words_[at_].text != text || !words_[at_].operation) return false;
    ++at_;
    return true;
  }

  Truth any() {
    if (++depth_ > kDeepestTest) return Truth::unknown;
    Truth truth = all();
    while (take("||")) truth = any_of(truth, all());
    --depth_;
    return truth;
  }

  Truth all() {
    Truth truth = one();
    while (take("&&")) truth = all_of(truth, one());
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

  bool ends(std::size_t at) const {
    if (at >= words_.size()) return true;
    const TestWord& word = words_[at];
    return word.operation && (word.text == "&&" || word.text == "||" || word.text == ")");
  }

  Truth simple() {
    if (ends(at_)) return Truth::unknown;
    const TestWord& first = words_[at_++];
    if (ends(at_)) return filled(first.text);
    const TestWord& second = words_[at_++];
    if (ends(at_))
      return first.operation && first.text.size() == 2 ? unary(first.text, second.text) : Truth::unknown;
    const TestWord& third = words_[at_++];
    if (!second.operation || !ends(at_)) return Truth::unknown;
    return compare(first, second.text, third);
  }

  static Truth compare(const TestWord& a, std::string_view sign, const TestWord& b) {
    if (!UnknownParts::known(a.text) || !UnknownParts::known(b.text)) return Truth::unknown;
    if (sign == "=" || sign == "==") return matches_pattern(a.text, b.pattern);
    if (sign == "!=") return not_of(matches_pattern(a.text, b.pattern));
    const auto plain = [](const std::string& text) {  // 08 is an octal number here
      return text == "0" || !text.starts_with('0');
    };
    if (!is_order(sign) || !plain(a.text) || !plain(b.text)) return Truth::unknown;
    const auto number = [](const std::string& text) { return text.empty() ? std::string("0") : text; };
    return order(number(a.text), sign, number(b.text));
  }

  const std::vector<TestWord>& words_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Truth any_of(Truth one, Truth other) {
  if (one == Truth::yes || other == Truth::yes) return Truth::yes;
  return one == Truth::no ? other : one;
}

Truth all_of(Truth one, Truth other) {
  return not_of(any_of(not_of(one), not_of(other)));
}

Truth bracket_test(const std::vector<ShellWord>& words) {
  std::vector<std::string> texts;
  for (const ShellWord& word : words) {
    if (word.splits) return Truth::unknown;
    texts.push_back(word.text);
  }
  return texts.size() > kDeepestTest ? Truth::unknown : bracket(texts);
}

Truth double_bracket_test(const std::vector<TestWord>& words) {
  return DoubleBracket(words).value();
}

}  // namespace plumbline
