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
  ShellSplitter(std::string_view text, const std::string& name) : text_(text), name_(name) {}

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
    if (here() == '\n') ++line_;
    ++at_;
  }
  [[noreturn]] void refuse(int line, std::string_view what) const {
    throw InputError(
        fmt::format("{}:{}: found {} without its end, expected a shell script", name_, line, what));
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
        skip_documents();
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

  /// Takes a separator or a redirection, if one is here.
  bool separator(std::vector<ShellToken>& found) {
    if (next_is("<<<")) {
      found.push_back({Kind::redirection, "<<<", line_});
      at_ += 3;
      return true;
    }
    if (next_is("<<")) {
      here_document();
      return true;
    }
    for (const std::string_view sign : {"&>>", "&>", ">>", ">&", "<&", ">|", ">", "<"}) {
      if (!next_is(sign)) continue;
      if ((sign == ">" || sign == "<") && at_ + 1 < text_.size() && text_[at_ + 1] == '(') return false;
      found.push_back({Kind::redirection, std::string(sign), line_});
      at_ += sign.size();
      return true;
    }
    for (const std::string_view sign : {";;", "&&", "||", "|&", ";", "&", "|", "(", ")"}) {
      if (!next_is(sign)) continue;
      found.push_back({Kind::separator, std::string(sign), line_});
      at_ += sign.size();
      return true;
    }
    return false;
  }

  void here_document() {
    at_ += 2;
    if (!done() && here() == '-') ++at_;
    while (!done() && (here() == ' ' || here() == '\t')) ++at_;
    std::string mark;
    while (!done() && std::string_view(" \t\r\n;|&<>()").find(here()) == std::string_view::npos) {
      if (here() != '\'' && here() != '"' && here() != '\\') mark += here();
      ++at_;
    }
    if (!mark.empty()) documents_.push_back(std::move(mark));
  }

  void skip_documents() {
    for (const std::string& mark : documents_) {
      while (!done()) {
        const std::size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view line = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        ++line_;
        line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line == mark) break;
      }
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
      if (std::string_view(" \t\r\n;&|<>()").find(c) != std::string_view::npos) {
        const bool process = (c == '<' || c == '>') && at_ + 1 < text_.size() && text_[at_ + 1] == '(';
        if (!process || !token.text.empty()) break;
        take(token.text);
        bracket(token.text, ')');
        continue;
      }
      if (next_is("\\\n")) {
        advance();
        advance();
        continue;
      }
      piece(token.text);
    }
    found.push_back(std::move(token));
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

  /// One character, or a quoted or bracketed part.
  void piece(std::string& to) {
    const int begin = line_;
    const char c = here();
    if (c == '\\') {
      take(to);
      if (!done()) take(to);
    } else if (c == '\'') {
      do take(to);
      while (!done() && here() != '\'');
      if (done()) refuse(begin, "a quote");
      take(to);
    } else if (c == '"' || c == '`') {
      quoted(to, c);
    } else if (next_is("$(") || next_is("${")) {
      take(to);
      bracket(to, here() == '(' ? ')' : '}');
    } else {
      take(to);
    }
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
      } else if (end == '"' && (next_is("$(") || next_is("${"))) {
        take(to);
        bracket(to, here() == '(' ? ')' : '}');
      } else if (end == '"' && here() == '`') {
        quoted(to, '`');
      } else {
        take(to);
      }
    }
    if (done()) refuse(begin, "a quote");
    take(to);
    --depth_;
  }

  void bracket(std::string& to, char end) {
    const int begin = line_;
    if (++depth_ > kDeepest) refuse(begin, "too many brackets");
    take(to);
    while (!done() && here() != end) {
      if (here() == '(' && end == ')') {
        bracket(to, ')');
      } else {
        piece(to);
      }
    }
    if (done()) refuse(begin, "a bracket");
    take(to);
    --depth_;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0;
  std::size_t count_ = 0;
  std::vector<std::string> documents_;  // marks of here-documents that begin after this line
  std::vector<ShellToken> job_options_;
};

}  // namespace

ShellTokens split_shell(std::string_view text, const std::string& name) {
  return ShellSplitter(text, name).split();
}

}  // namespace plumbline
