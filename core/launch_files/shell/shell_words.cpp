#include "core/launch_files/shell/shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostTokens = 200'000;
constexpr int kDeepest = 60;  // brackets and quotes inside each other
constexpr std::string_view kJobComment = "#SBATCH";

class ShellSplitter {
 public:
  ShellSplitter(std::string_view text, const std::string& name, int line)
      : text_(text), name_(name), line_(line > 0 ? line : 1), counts_lines_(line == 0) {}

  ShellTokens split() {
    ShellTokens all;
    all.tokens = list(false);
    all.job_options = std::move(job_options_);
    return all;
  }

 private:
  using Kind = ShellToken::Kind;

  bool done() const { return at_ >= text_.size(); }
  char here() const { return text_[at_]; }
  bool next_is(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  void advance() {
    if (here() == '\n' && counts_lines_) ++line_;
    ++at_;
  }
  [[noreturn]] void refuse(int line, std::string_view what) const {
    throw InputError(
        fmt::format("{}:{}: found {} without its end, expected a shell script", name_, line, what));
  }
  [[noreturn]] void unread(int line, std::string_view what) const {
    throw InputError(fmt::format("{}:{}: found {}, which is not read; expected a launch script without it",
                                 name_, line, what));
  }

  /// Tokens up to the end, or to the closing bracket of an array.
  std::vector<ShellToken> list(bool array) {
    std::vector<ShellToken> found;
    const int begin = line_;
    while (!done()) {
      const char c = here();
      if (++count_ > kMostTokens)
        throw InputError(fmt::format("{}:{}: found more than {} words, expected a launch script", name_,
                                     line_, kMostTokens));
      if (array && c == ')') {
        advance();
        return found;
      }
      if (c == '\n') {
        found.push_back({Kind::separator, "\n", line_});
        advance();
        take_documents(found);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        advance();
      } else if (next_is("\\\n")) {
        advance();
        advance();
      } else if (next_is("\\\r\n")) {
        advance();
        advance();
        advance();
      } else if (c == '#') {
        comment();
      } else if (next_is("((")) {
        arithmetic(found);
      } else if (!separator(found)) {
        word(found);
      }
    }
    if (array) refuse(begin, "the bracket of an array");
    return found;
  }

  void comment() {
    const std::size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view line = text_.substr(at_, end - at_);
    if (line.starts_with(kJobComment)) {
      std::size_t from = kJobComment.size();
      while (from < line.size()) {
        const std::size_t begin = line.find_first_not_of(" \t\r", from);
        if (begin == std::string_view::npos || line[begin] == '#') break;
        from = std::min(line.find_first_of(" \t\r", begin), line.size());
        job_options_.push_back({Kind::word, std::string(line.substr(begin, from - begin)), line_});
      }
    }
    at_ = end;
  }

  /// The command ((expression)).
  void arithmetic(std::vector<ShellToken>& found) {
    ShellToken token{Kind::arithmetic, "", line_};
    advance();
    bracket(token.text, ')', Inside::arithmetic);
    if (done() || here() != ')') unread(token.line, "`((` that two brackets do not close together");
    advance();
    token.text = token.text.substr(1, token.text.size() - 2);
    found.push_back(std::move(token));
  }

  /// Takes a separator or a redirection, if one is here.
  bool separator(std::vector<ShellToken>& found) {
    if (next_is("<<") && !next_is("<<<")) {
      here_document(found);
      return true;
    }
    for (const std::string_view sign : {"<<<", "&>>", "&>", ">>", ">&", "<&", "<>", ">|", ">", "<"}) {
      if (!next_is(sign)) continue;
      if ((sign == ">" || sign == "<") && at_ + 1 < text_.size() && text_[at_ + 1] == '(') return false;
      found.push_back({Kind::redirection, std::string(sign), line_, {}, std::exchange(descriptor_, {})});
      at_ += sign.size();
      return true;
    }
    for (const std::string_view sign : {";;&", ";;", ";&", "&&", "||", "|&", ";", "&", "|", "(", ")"}) {
      if (!next_is(sign)) continue;
      found.push_back({Kind::separator, std::string(sign), line_});
      at_ += sign.size();
      return true;
    }
    return false;
  }

  void here_document(std::vector<ShellToken>& found) {
    found.push_back({Kind::redirection, "<<", line_, {}, std::exchange(descriptor_, {})});
    at_ += 2;
    Document document;
    document.token = found.size() - 1;
    if (!done() && here() == '-') {
      document.strips_tabs = true;
      ++at_;
    }
    while (!done() && (here() == ' ' || here() == '\t')) ++at_;
    while (!done() && std::string_view(" \t\r\n;|&<>()").find(here()) == std::string_view::npos) {
      const char c = here();
      ++at_;
      if (c == '\'' || c == '"') {
        document.expands = false;
        for (; !done() && here() != c; ++at_) document.mark += here();
        if (done()) refuse(line_, "a quote");
        ++at_;
      } else if (c == '\\') {
        document.expands = false;
      } else {
        document.mark += c;
      }
    }
    documents_.push_back(std::move(document));
  }

  void take_documents(std::vector<ShellToken>& found) {
    for (const Document& document : documents_) {
      std::string text;
      while (!done()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        if (counts_lines_) ++line_;
        if (document.strips_tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line == document.mark) break;
        text.append(line) += '\n';
      }
      if (document.expands) found[document.token].document = std::move(text);
    }
    documents_.clear();
  }

  void word(std::vector<ShellToken>& found) {
    ShellToken token{Kind::word, "", line_};
    while (!done()) {
      const char c = here();
      if (c == '(' && token.text.ends_with('=') && is_name(token.text)) {
        advance();
        if (++depth_ > kDeepest) refuse(line_, "too many brackets");
        token.kind = Kind::array;
        token.items = list(true);
        --depth_;
        break;
      }
      if ((c == '<' || c == '>') && is_descriptor(token.text)) {
        descriptor_ = std::move(token.text);
        return;
      }
      if (std::string_view(" \t\r\n;&|<>()").find(c) != std::string_view::npos) {
        const bool process = (c == '<' || c == '>') && at_ + 1 < text_.size() && text_[at_ + 1] == '(';
        if (!process) break;
        take(token.text);
        bracket(token.text, ')', Inside::command);
        continue;
      }
      if (next_is("\\\n")) {
        advance();
        advance();
        continue;
      }
      piece(token.text);
    }
    if (token.kind == Kind::word && token.text.empty()) return;  // a line that goes on in the next one
    found.push_back(std::move(token));
  }

  /// "2" or "{fd}" right before a redirection.
  static bool is_descriptor(std::string_view text) {
    if (text.size() > 2 && text.front() == '{' && text.back() == '}')
      return name_length(text.substr(1)) == text.size() - 2;
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  }

  /// "NAME=" or "NAME+=".
  static bool is_name(std::string_view text) {
    text.remove_suffix(1);
    if (text.ends_with('+')) text.remove_suffix(1);
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  }

  void take(std::string& to) {
    to += here();
    advance();
  }

  enum class Inside { command, arithmetic, parameter, quoted_parameter };

  /// One character, or a quoted or bracketed part.
  void piece(std::string& to) {
    const int begin = line_;
    const char c = here();
    if (c == '\\') {
      take(to);
      if (!done()) take(to);
    } else if (c == '\'') {
      const bool escapes = ends_with_dollar(to);
      do {
        if (escapes && here() == '\\') take(to);
        if (!done()) take(to);
      } while (!done() && here() != '\'');
      if (done()) refuse(begin, "a quote");
      take(to);
    } else if (c == '"' || c == '`') {
      quoted(to, c);
    } else if (!dollar(to, Inside::parameter)) {
      take(to);
    }
  }

  /// A dollar sign that no backslash precedes.
  static bool ends_with_dollar(std::string_view text) {
    if (!text.ends_with('$')) return false;
    text.remove_suffix(1);
    return (text.size() - (text.find_last_not_of('\\') + 1)) % 2 == 0;
  }

  /// $(( )), $( ) or ${ }, if it is here.
  bool dollar(std::string& to, Inside parameter) {
    if (!next_is("$(") && !next_is("${")) return false;
    const bool sum = next_is("$((");
    take(to);
    if (here() == '{') {
      bracket(to, '}', parameter);
    } else {
      bracket(to, ')', sum ? Inside::arithmetic : Inside::command);
    }
    return true;
  }

  void quoted(std::string& to, char end) {
    const int begin = line_;
    if (++depth_ > kDeepest) refuse(begin, "too many quotes");
    take(to);
    while (!done() && here() != end) {
      if (next_is("\\\n") && end == '"') {
        advance();
        advance();
      } else if (here() == '\\') {
        take(to);
        if (!done()) take(to);
      } else if (end == '"' && here() == '`') {
        quoted(to, '`');
      } else if (end != '"' || !dollar(to, Inside::quoted_parameter)) {
        take(to);
      }
    }
    if (done()) refuse(begin, "a quote");
    take(to);
    --depth_;
  }

  void bracket(std::string& to, char end, Inside inside) {
    const int begin = line_;
    if (++depth_ > kDeepest) refuse(begin, "too many brackets");
    take(to);
    while (!done() && here() != end) {
      const bool opens_word = std::string_view(" \t\n;&|(").find(to.back()) != std::string_view::npos;
      if (here() == '(' && end == ')') {
        bracket(to, ')', inside);
      } else if (inside == Inside::command && opens_word && here() == '#') {
        while (!done() && here() != '\n') advance();
      } else if (inside == Inside::command && opens_word && next_is("case") && at_ + 4 < text_.size() &&
                 std::isspace(static_cast<unsigned char>(text_[at_ + 4])) != 0) {
        unread(line_, "`case` in a command substitution");
      } else if (inside == Inside::command && next_is("<<<")) {
        for (int i = 0; i < 3; ++i) take(to);
      } else if (inside == Inside::command && next_is("<<")) {
        unread(line_, "a here-document in a command substitution");
      } else if (inside == Inside::quoted_parameter && here() == '\'') {
        unread(line_, "a single quote in \"${ }\"");
      } else if (!dollar(to, inside == Inside::quoted_parameter ? inside : Inside::parameter)) {
        piece(to);
      }
    }
    if (done()) refuse(begin, "a bracket");
    take(to);
    --depth_;
  }

  struct Document {
    std::string mark;
    std::size_t token = 0;
    bool strips_tabs = false;
    bool expands = true;
  };

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_;
  bool counts_lines_;
  int depth_ = 0;
  std::size_t count_ = 0;
  std::string descriptor_;           // of the redirection that follows
  std::vector<Document> documents_;  // that begin after this line
  std::vector<ShellToken> job_options_;
};

}  // namespace

std::size_t name_length(std::string_view text) {
  std::size_t length = 0;
  if (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0) return 0;
  while (length < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[length])) != 0 || text[length] == '_'))
    ++length;
  return length;
}

ShellTokens split_shell(std::string_view text, const std::string& name, int line) {
  return ShellSplitter(text, name, line).split();
}

}  // namespace plumbline
