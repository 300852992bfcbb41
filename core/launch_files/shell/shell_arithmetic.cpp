#include "core/launch_files/shell/shell_arithmetic.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

namespace plumbline {
namespace {

constexpr int kDeepestExpression = 40;

/// Operators between two operands; a higher level binds closer.
struct BinaryOperator {
  std::string_view sign;
  int level;
};
constexpr BinaryOperator kBinary[] = {
    {"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4}, {"&", 5}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<", 7},
    {">", 7},  {"<<", 8}, {">>", 8}, {"+", 9}, {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10}, {"**", 11}};
constexpr int kLogical = 2;
constexpr int kPower = 11;
constexpr std::string_view kAssignments[] = {
    "=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="};
/// All signs, the longest first.
constexpr std::string_view kSigns[] = {
    "<<=", ">>=", "**", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--",
    "+=",  "-=",  "*=", "/=", "%=", "&=", "^=", "|=", "+",  "-",  "*",  "/",  "%",
    "<",   ">",   "=",  "!",  "~",  "&",  "^",  "|",  "?",  ":",  ",",  "(",  ")"};

/// A number as bash writes it: decimal, 0x, octal behind 0, base#digits up to base 36.
std::optional<std::int64_t> number_of(std::string_view text) {
  int base = 10;
  if (const std::size_t hash = text.find('#'); hash != std::string_view::npos) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + hash, base);
    if (error != std::errc() || end != text.data() + hash || base < 2 || base > 36) return std::nullopt;
    text.remove_prefix(hash + 1);
  } else if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text[0] == '0') {
    base = 8;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<std::int64_t> power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) return std::nullopt;
  std::int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (result == 0 || result == 1) {
      if (base == 0 || base == 1) return base;
    }
    if (exponent > 64 || __builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> calculated(std::int64_t a, std::string_view sign, std::int64_t b) {
  std::int64_t result = 0;
  if (sign == "+") return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (sign == "-") return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (sign == "*") return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
  if (sign == "/" || sign == "%") {
    if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) return std::nullopt;
    return sign == "/" ? a / b : a % b;
  }
  if (sign == "**") return power(a, b);
  if (sign == "<<" || sign == ">>") {
    if (b < 0 || b > 62 || a < 0) return std::nullopt;
    if (sign == ">>") return a >> b;
    return a > (std::numeric_limits<std::int64_t>::max() >> b) ? std::nullopt : std::optional(a << b);
  }
  if (sign == "&") return a & b;
  if (sign == "^") return a ^ b;
  if (sign == "|") return a | b;
  if (sign == "==") return a == b;
  if (sign == "!=") return a != b;
  if (sign == "<=") return a <= b;
  if (sign == ">=") return a >= b;
  return sign == "<" ? a < b : a > b;
}

/// Recursive descent; `live` is false where bash only parses: behind `0 &&`, in the other branch of `?:`.
class Arithmetic {
 public:
  using Number = std::optional<std::int64_t>;
  using Variable = std::function<std::optional<std::string>(const std::string&)>;
  Arithmetic(std::string_view text, const Variable& variable) : text_(text), variable_(variable) {}

  std::optional<ShellNumber> value() {
    const Number all = list(true);
    if (!all || !peek().empty() || at_ != text_.size()) return std::nullopt;
    return ShellNumber{*all, std::move(assigned_)};
  }

 private:
  void blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  std::string_view peek() {
    blanks();
    for (const std::string_view sign : kSigns)
      if (text_.substr(at_).starts_with(sign)) return sign;
    return "";
  }
  bool take(std::string_view sign) {
    if (peek() != sign) return false;
    at_ += sign.size();
    return true;
  }

  Number list(bool live) {
    Number last = assignment(live);
    while (last && take(",")) last = assignment(live);
    return last;
  }

  Number assignment(bool live) {
    if (++depth_ > kDeepestExpression) return std::nullopt;
    const std::size_t begin = at_;
    const std::string name = word();
    const std::string_view sign = peek();
    Number result;
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
        std::find(std::begin(kAssignments), std::end(kAssignments), sign) != std::end(kAssignments)) {
      at_ += sign.size();
      result = assignment(live);
      if (result && live && sign != "=") {
        const Number before = of_variable(name);
        result = before ? calculated(*before, sign.substr(0, sign.size() - 1), *result) : std::nullopt;
      }
      if (result && live) assigned_[name] = *result;
    } else {
      at_ = begin;
      result = choice(live);
    }
    --depth_;
    return result;
  }

  Number choice(bool live) {
    const Number condition = binary(1, live);
    if (!condition || !take("?")) return condition;
    const bool first = *condition != 0;
    const Number yes = list(live && first);
    if (!yes || !take(":")) return std::nullopt;
    const Number no = assignment(live && !first);
    return !no ? no : first ? yes : no;
  }

  Number binary(int least, bool live) {
    Number left = unary(live);
    while (left) {
      const std::string_view sign = peek();
      const auto* const found = std::find_if(std::begin(kBinary), std::end(kBinary),
                                             [&](const BinaryOperator& each) { return each.sign == sign; });
      if (found == std::end(kBinary) || found->level < least) break;
      at_ += sign.size();
      const bool ends = found->level <= kLogical && (*left != 0) == (sign == "||");
      const Number right = binary(found->level == kPower ? kPower : found->level + 1, live && !ends);
      if (!right) return std::nullopt;
      if (found->level <= kLogical) {
        left = ends ? (sign == "||" ? 1 : 0) : static_cast<std::int64_t>(*right != 0);
      } else {
        left = live ? calculated(*left, sign, *right) : Number(0);
      }
    }
    return left;
  }

  Number unary(bool live) {
    if (++depth_ > kDeepestExpression) return std::nullopt;
    Number result;
    if (take("++") || take("--")) {
      const std::int64_t step = text_[at_ - 1] == '+' ? 1 : -1;
      result = stepped(word(), step, live, true);
    } else if (take("+")) {
      result = unary(live);
    } else if (take("-")) {
      const Number inside = unary(live);
      result = inside ? calculated(0, "-", *inside) : inside;
    } else if (take("!")) {
      const Number inside = unary(live);
      result = inside ? Number(*inside == 0) : inside;
    } else if (take("~")) {
      const Number inside = unary(live);
      result = inside ? Number(~*inside) : inside;
    } else if (take("(")) {
      result = list(live);
      if (!take(")")) result.reset();
    } else {
      result = operand(live);
    }
    --depth_;
    return result;
  }

  Number operand(bool live) {
    const std::string name = word();
    if (name.empty()) return std::nullopt;
    if (std::isdigit(static_cast<unsigned char>(name[0])) != 0) return number_of(name);
    if (at_ < text_.size() && text_[at_] == '[') return item(name, live);
    if (take("++")) return stepped(name, 1, live, false);
    if (take("--")) return stepped(name, -1, live, false);
    return live ? of_variable(name) : Number(0);
  }

  Number item(const std::string& name, bool live) {
    ++at_;
    const Number index = list(live);
    blanks();
    if (!index || at_ >= text_.size() || text_[at_] != ']') return std::nullopt;
    ++at_;
    return live ? of_variable(name + "[" + std::to_string(*index) + "]") : Number(0);
  }

  Number stepped(const std::string& name, std::int64_t step, bool live, bool before) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return std::nullopt;
    if (!live) return 0;
    const Number old = of_variable(name);
    const Number now = old ? calculated(*old, "+", step) : std::nullopt;
    if (now) assigned_[name] = *now;
    return before || !now ? now : old;
  }

  /// A name, or digits with letters behind them; $NAME and ${NAME} as the name.
  std::string word() {
    blanks();
    std::size_t at = at_;
    const bool dollar = at < text_.size() && text_[at] == '$';
    const bool brace = dollar && at + 1 < text_.size() && text_[at + 1] == '{';
    at += (dollar ? 1 : 0) + (brace ? 1 : 0);
    const std::size_t begin = at;
    const auto part = [&](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
             (c == '#' && at > begin && !dollar);
    };
    while (at < text_.size() && part(text_[at])) ++at;
    std::string found(text_.substr(begin, at - begin));
    if (brace && (at >= text_.size() || text_[at++] != '}')) return "";
    if (found.empty() || (dollar && std::isdigit(static_cast<unsigned char>(found[0])) != 0)) return "";
    at_ = at;
    return found;
  }

  Number of_variable(const std::string& name) const {
    if (const auto found = assigned_.find(name); found != assigned_.end()) return found->second;
    const std::optional<std::string> text = variable_(name);
    if (!text || text->empty()) return std::nullopt;
    const bool negative = (*text)[0] == '-';
    const Number size = number_of(std::string_view(*text).substr(negative ? 1 : 0));
    if (!size || *size < 0) return std::nullopt;
    return negative ? -*size : *size;
  }

  std::string_view text_;
  const Variable& variable_;
  std::map<std::string, std::int64_t> assigned_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<ShellNumber> shell_arithmetic(
    std::string_view text, const std::function<std::optional<std::string>(const std::string&)>& variable) {
  return Arithmetic(text, variable).value();
}

}  // namespace plumbline
