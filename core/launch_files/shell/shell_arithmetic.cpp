#include "core/launch_files/shell/shell_arithmetic.hpp"

#include <cctype>
#include <charconv>

namespace plumbline {
namespace {

constexpr int kDeepestExpression = 40;

class Arithmetic {
 public:
  using Number = std::optional<std::int64_t>;
  Arithmetic(std::string_view text,
             const std::function<std::optional<std::string>(const std::string&)>& variable)
      : text_(text), variable_(variable) {}

  Number value() {
    const Number sum = this->sum();
    blanks();
    return at_ == text_.size() ? sum : std::nullopt;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Number sum() {
    if (++depth_ > kDeepestExpression) return std::nullopt;
    Number left = product();
    while (left) {
      std::int64_t result = 0;
      if (take('+')) {
        const Number right = product();
        if (!right || __builtin_add_overflow(*left, *right, &result)) return std::nullopt;
      } else if (take('-')) {
        const Number right = product();
        if (!right || __builtin_sub_overflow(*left, *right, &result)) return std::nullopt;
      } else {
        break;
      }
      left = result;
    }
    --depth_;
    return left;
  }

  Number product() {
    Number left = atom();
    while (left) {
      std::int64_t result = 0;
      if (take('*')) {
        const Number right = atom();
        if (!right || __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
      } else if (take('/')) {
        const Number right = atom();
        if (!right || *right <= 0) return std::nullopt;
        result = *left / *right;
      } else if (take('%')) {
        const Number right = atom();
        if (!right || *right <= 0) return std::nullopt;
        result = *left % *right;
      } else {
        break;
      }
      left = result;
    }
    return left;
  }

  static Number whole(std::string_view text) {
    std::int64_t number{};
    if (text.size() > 1 && text[text[0] == '-' ? 1 : 0] == '0') return std::nullopt;  // an octal number
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? Number(number) : std::nullopt;
  }

  Number atom() {
    if (take('(')) {
      const Number inside = sum();
      return take(')') ? inside : std::nullopt;
    }
    const bool dollar = take('$');
    const bool brace = dollar && take('{');
    blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_'))
      ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (brace && !take('}')) return std::nullopt;
    if (word.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) return dollar ? std::nullopt : whole(word);
    const std::optional<std::string> text = variable_(word);
    return text ? whole(*text) : std::nullopt;
  }

  std::string_view text_;
  const std::function<std::optional<std::string>(const std::string&)>& variable_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<std::int64_t> shell_arithmetic(
    std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& variable) {
  return Arithmetic(text, variable).value();
}

}  // namespace plumbline
