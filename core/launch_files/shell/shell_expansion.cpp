#include "core/launch_files/shell/shell_expansion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_arithmetic.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 22;  // of all expansions
constexpr int kDeepestExpansion = 40;

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  if (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0) return 0;
  while (length < text.size() && is_name_character(text[length])) ++length;
  return length;
}

/// Expands one word; lives for that long.
class WordExpander {
 public:
  WordExpander(ShellVariables& variables, int line, bool split, bool test)
      : variables_(variables), line_(line), split_(split), test_(test) {}

  std::vector<ShellWord> words(std::string_view text) {
    run(text, false);
    end_word();
    return std::move(words_);
  }

 private:
  void run(std::string_view text, bool in_quotes) {
    if (++variables_.depth_ > kDeepestExpansion)
      throw InputError(
          fmt::format("{}:{}: expands too deep, expected a launch script", variables_.name_, line_));
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == '\\' && at + 1 < text.size()) {
        const char next = text[at + 1];
        if (in_quotes && std::string_view("$`\"\\").find(next) == std::string_view::npos) add(c);
        add(next);
        at += 2;
      } else if (c == '\'' && !in_quotes) {
        const std::size_t end = std::min(text.find('\'', at + 1), text.size());
        add(text.substr(at + 1, end - at - 1));
        open_ = word_.quoted = true;
        at = end + 1;
      } else if (c == '"' && !in_quotes) {
        const std::size_t end = closing_quote(text, at);
        open_ = word_.quoted = true;
        run(text.substr(at + 1, end - at - 1), true);
        at = end + 1;
      } else if (c == '`') {
        const std::size_t end = std::min(text.find('`', at + 1), text.size() - 1);
        unknown(text.substr(at, end - at + 1));
        at = end + 1;
      } else if (c == '$') {
        at += dollar(text.substr(at), in_quotes);
      } else {
        add(c);
        ++at;
      }
    }
    --variables_.depth_;
  }

  static std::size_t closing_quote(std::string_view text, std::size_t at) {
    int brackets = 0;
    for (std::size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '(')) {
        ++brackets;
        ++i;
      } else if (brackets > 0 && (text[i] == '}' || text[i] == ')')) {
        --brackets;
      } else if (text[i] == '"' && brackets == 0) {
        return i;
      }
    }
    return text.size();
  }

  /// Length of the bracketed part at the front of `text`, brackets included.
  static std::size_t bracketed(std::string_view text) {
    const char open = text[0];
    const char close = open == '(' ? ')' : '}';
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == open) {
        ++depth;
      } else if (text[i] == close && --depth == 0) {
        return i + 1;
      }
    }
    return text.size();
  }

  /// Expands what starts with a dollar sign; returns its length.
  std::size_t dollar(std::string_view text, bool in_quotes) {
    if (text.size() == 1) {
      add('$');
      return 1;
    }
    const char next = text[1];
    if (text.starts_with("$((")) {
      const std::size_t length = 1 + bracketed(text.substr(1));
      const std::string_view inside = text.substr(3, length > 5 ? length - 5 : 0);
      if (const auto value = variables_.arithmetic(inside)) {
        add(fmt::format("{}", *value));
      } else {
        unknown(text.substr(0, length));
      }
      return length;
    }
    if (next == '(') {
      const std::size_t length = 1 + bracketed(text.substr(1));
      unknown(text.substr(0, length));
      return length;
    }
    if (next == '{') {
      const std::size_t length = 1 + bracketed(text.substr(1));
      parameter(text.substr(2, length > 3 ? length - 3 : 0), text.substr(0, length), in_quotes);
      return length;
    }
    const std::size_t length = name_length(text.substr(1));
    if (length > 0) {
      value_of(std::string(text.substr(1, length)), text.substr(0, length + 1), in_quotes, false);
      return length + 1;
    }
    if (std::isdigit(static_cast<unsigned char>(next)) != 0 ||
        std::string_view("@*#?$!-").find(next) != std::string_view::npos) {
      unknown(text.substr(0, 2));
      return 2;
    }
    add('$');
    return 1;
  }

  /// ${inside}, written as `whole`.
  void parameter(std::string_view inside, std::string_view whole, bool in_quotes) {
    const bool positional = !inside.empty() && (std::isdigit(static_cast<unsigned char>(inside[0])) != 0 ||
                                                inside[0] == '@' || inside[0] == '*');
    std::size_t length = positional ? 1 : name_length(inside);
    while (positional && length < inside.size() &&
           std::isdigit(static_cast<unsigned char>(inside[length])) != 0)
      ++length;
    if (length == 0) return unknown(whole);
    const std::string name(inside.substr(0, length));
    std::string_view rest = inside.substr(length);
    bool all = false;
    if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
      all = true;
      rest.remove_prefix(3);
    }
    if (rest.empty()) return value_of(name, whole, in_quotes, all);
    const bool colon = rest.starts_with(':');
    const std::string_view sign = rest.substr(colon ? 1 : 0, 1);
    const std::string_view otherwise = rest.substr(std::min<std::size_t>(rest.size(), colon ? 2 : 1));
    const ShellVariable* const variable = positional ? nullptr : variables_.find(name);
    const bool empty =
        variable != nullptr &&
        (variable->items.empty() || (variable->items.size() == 1 && variable->items[0].text.empty()));
    const bool given = variable != nullptr && !(colon && empty);
    if (sign == "-" || sign == "=") {
      if (given) return value_of(name, whole, in_quotes, all);
      if (sign == "=" && !positional)
        variables_.variables_[name] = {{variables_.expand_whole(std::string(otherwise), line_)}, false, 0};
      return run(otherwise, in_quotes);
    }
    if (sign == "?" && given) return value_of(name, whole, in_quotes, all);
    if (sign == "+" && !positional) {
      if (given) run(otherwise, in_quotes);
      return;
    }
    unknown(whole);
  }

  void value_of(const std::string& name, std::string_view whole, bool in_quotes, bool all) {
    const ShellVariable* const variable = variables_.find(name);
    if (variable == nullptr) {
      if (!test_ || std::isdigit(static_cast<unsigned char>(name[0])) != 0) unknown(whole);
      return;
    }
    const std::size_t most = all ? variable->items.size() : std::min<std::size_t>(1, variable->items.size());
    for (std::size_t i = 0; i < most; ++i) {
      const ShellWord item = variable->items[i];
      variables_.count(item.text.size() + 1);
      if (i > 0 && split_) {
        end_word();
      } else if (i > 0) {
        add(' ');
      }
      word_.line = item.line;
      if (!item.known) word_.known = false;
      if (in_quotes || !split_) {
        add(item.text);
        open_ = true;
        if (all) word_.quoted = true;
      } else {
        add_split(item.text, item.known);
      }
    }
  }

  void add_split(std::string_view text, bool known) {
    for (const char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        end_word();
        word_.known = known;
      } else {
        add(c);
      }
    }
  }

  void add(std::string_view text) {
    variables_.count(text.size());
    word_.text += text;
    if (!text.empty()) open_ = true;
  }
  void add(char c) { add(std::string_view(&c, 1)); }
  void unknown(std::string_view whole) {
    add(whole);
    word_.known = false;
  }

  void end_word() {
    if (open_) words_.push_back(word_);
    word_ = {"", line_, true, false};
    open_ = false;
  }

  ShellVariables& variables_;
  int line_;
  bool split_;
  bool test_;
  std::vector<ShellWord> words_;
  ShellWord word_{"", line_, true, false};
  bool open_ = false;  // the word has begun, though it may be empty
};

const ShellVariable* ShellVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void ShellVariables::count(std::size_t bytes) {
  bytes_ += bytes;
  if (bytes_ > kMostBytes)
    throw InputError(fmt::format("{}: variables expand to more than {} MiB, expected a launch script", name_,
                                 kMostBytes >> 20));
}

std::vector<ShellWord> ShellVariables::expand(const ShellToken& token) {
  return WordExpander(*this, token.line, true, false).words(token.text);
}

ShellWord ShellVariables::expand_whole(const std::string& text, int line) {
  std::vector<ShellWord> words = WordExpander(*this, line, false, false).words(text);
  return words.empty() ? ShellWord{"", line, true, true} : words.front();
}

ShellWord ShellVariables::expand_test(const std::string& text, int line) {
  std::vector<ShellWord> words = WordExpander(*this, line, false, true).words(text);
  return words.empty() ? ShellWord{"", line, true, true} : words.front();
}

std::optional<std::int64_t> ShellVariables::arithmetic(std::string_view text) const {
  return shell_arithmetic(text, [this](const std::string& name) -> std::optional<std::string> {
    const ShellVariable* const variable = find(name);
    if (variable == nullptr || variable->items.size() != 1 || !variable->items.front().known)
      return std::nullopt;
    return variable->items.front().text;
  });
}

}  // namespace plumbline
