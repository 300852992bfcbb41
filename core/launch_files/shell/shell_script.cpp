#include "core/launch_files/shell/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/shell/shell_test.hpp"
#include "core/launch_files/shell/shell_words.hpp"

namespace plumbline {
namespace {

constexpr int kDeepestScript = 60;
constexpr int kMostSourced = 20;

class ScriptReader {
 public:
  ScriptReader(std::string_view text, const std::string& name, const OtherFile& other)
      : name_(name), other_(other), split_(split_shell(text, name)), variables_(name) {}

  ShellScript read() {
    all();
    for (const ShellToken& option : split_.job_options)
      script_.job_options.push_back({option.text, option.line, option.text.find('$') == std::string::npos});
    collect_variables();
    return std::move(script_);
  }

 private:
  using Kind = ShellToken::Kind;
  using Ends = std::set<std::string_view>;
  using Tokens = std::vector<ShellToken>;

  const Tokens& tokens() const { return split_.tokens; }
  bool done() const { return at_ >= tokens().size(); }
  const ShellToken& here() const { return tokens()[at_]; }
  bool is(Kind kind, std::string_view text) const {
    return !done() && here().kind == kind && here().text == text;
  }
  bool at_end(const Ends& ends) const {
    return done() || (here().kind != Kind::array && ends.contains(here().text));
  }
  void note(int line, const std::string& what) {
    script_.notes.push_back(fmt::format("{}:{}: {}", name_, line, what));
  }

  void all() {
    while (at_ < tokens().size()) {
      list({}, true);
      if (at_ < tokens().size()) ++at_;  // a closing word without its opening one
    }
  }

  /// Commands of a file in place of the one that sources it; false when there is no such file.
  bool read_sourced(const ShellWord& path, int line) {
    if (!other_ || ++sourced_ > kMostSourced) return false;
    std::string file = path.text;
    if (!path.known) {  // "${SCRIPT_DIR}/models/a.sh" is looked for as models/a.sh
      const std::size_t end = file.find_last_of(")}`");
      const std::size_t slash = file.find('/', end == std::string::npos ? 0 : end);
      if (slash == std::string::npos) return false;
      file.erase(0, slash + 1);
      if (file.find('$') != std::string::npos) return false;
    }
    const std::optional<std::string> text = other_(file);
    if (!text) return false;
    ShellTokens tokens = split_shell(*text, file);
    for (ShellToken& token : tokens.tokens) {
      token.line = line;
      for (ShellToken& item : token.items) item.line = line;
    }
    std::swap(split_, tokens);
    const std::size_t at = std::exchange(at_, 0);
    all();
    std::swap(split_, tokens);
    at_ = at;
    return true;
  }

  /// Commands up to one of `ends`, which is not taken. Returns the truth of the last one.
  Truth list(const Ends& ends, bool active) {
    if (++depth_ > kDeepestScript)
      throw InputError(
          fmt::format("{}: blocks nest more than {} deep, expected a launch script", name_, kDeepestScript));
    Truth truth = Truth::yes;
    std::string_view joint;
    while (!at_end(ends) && (!ends.empty() || !is_close())) {
      if (here().kind == Kind::separator && here().text != "(") {
        const std::string& text = here().text;
        if (text == "&&" || text == "||") {
          joint = text;
        } else if (text != "\n" || joint.empty()) {
          joint = {};
        }
        ++at_;
        continue;
      }
      const bool follows = joint == "&&" ? truth == Truth::yes : joint == "||" ? truth == Truth::no : true;
      const bool undecided = !joint.empty() && truth == Truth::unknown;
      const int line = here().line;
      const bool runs = active && follows && !stopped_;
      const std::size_t begin = at_;
      const Truth result = statement(runs, ends);
      if (active && undecided && has_flag(begin, at_))
        note(line, "its condition is not decided; it is left out");
      if (runs) truth = result;
      joint = {};
    }
    --depth_;
    return truth;
  }

  /// A word that only closes what another opened.
  bool is_close() const {
    static const Ends kClosing = {"fi", "done", "esac", "}", ")", "then", "else", "elif", "do", ";;"};
    return here().kind != Kind::array && kClosing.contains(here().text);
  }

  Truth statement(bool active, const Ends& ends) {
    const std::string word = here().kind == Kind::array ? "" : here().text;
    if (word == "if") return if_statement(active);
    if (word == "for" || word == "while" || word == "until" || word == "select") return loop(active);
    if (word == "case") return case_statement(active);
    if (word == "function") return function(active);
    if (word == "{" || word == "(") {
      ++at_;
      const std::string_view close = word == "{" ? "}" : ")";
      const Truth truth = list({close}, active);
      if (!done()) ++at_;
      return truth;
    }
    if (word == "!") {
      bool negated = false;
      for (; is(Kind::word, "!"); ++at_) negated = !negated;
      if (at_end(ends)) return Truth::unknown;
      const Truth truth = command(active);
      return negated ? not_of(truth) : truth;
    }
    if (at_ + 2 < tokens().size() && here().kind == Kind::word && tokens()[at_ + 1].text == "(" &&
        tokens()[at_ + 2].text == ")") {
      return function(active);
    }
    return command(active);
  }

  Truth if_statement(bool active) {
    Truth taken = Truth::no;  // a branch before
    while (!done() && here().text != "fi") {
      const std::string word = here().text;
      const int line = here().line;
      ++at_;
      Truth truth = Truth::yes;
      if (word == "if" || word == "elif") {
        truth = list({"then", "fi"}, active && taken != Truth::yes);
        if (is(Kind::word, "then")) ++at_;
      } else if (word != "else") {
        continue;
      }
      const bool runs = active && taken == Truth::no && truth == Truth::yes;
      const bool perhaps = active && !runs && taken != Truth::yes && truth != Truth::no;
      const std::size_t begin = at_;
      list({"fi", "else", "elif"}, runs);
      if (perhaps && has_flag(begin, at_)) {
        note(line, fmt::format("the condition of `{}` is not decided; its branch is left out", word));
      }
      if (runs) {
        taken = Truth::yes;
      } else if (perhaps) {
        taken = Truth::unknown;
      }
    }
    if (!done()) ++at_;
    return Truth::yes;
  }

  /// Some argument of a program is written in these tokens.
  bool has_flag(std::size_t begin, std::size_t end) const {
    const auto holds = [](const ShellToken& token) {
      return token.text.find("--") != std::string::npos ||
             std::any_of(token.items.begin(), token.items.end(),
                         [](const ShellToken& item) { return item.text.find("--") != std::string::npos; });
    };
    return std::any_of(tokens().begin() + static_cast<std::ptrdiff_t>(begin),
                       tokens().begin() + static_cast<std::ptrdiff_t>(end), holds);
  }

  Truth loop(bool active) {
    const int line = here().line;
    while (!done() && here().text != "do" && here().text != "done") ++at_;
    if (is(Kind::word, "do")) ++at_;
    const std::size_t begin = at_;
    list({"done"}, false);
    if (active && has_flag(begin, at_)) note(line, "the loop is left out");
    if (!done()) ++at_;
    return Truth::yes;
  }

  Truth function(bool active) {
    const int line = here().line;
    while (!done() && here().text != "{") ++at_;
    if (!done()) ++at_;
    const std::size_t begin = at_;
    list({"}"}, false);
    if (active && has_flag(begin, at_)) note(line, "the function is left out");
    if (!done()) ++at_;
    return Truth::yes;
  }

  Truth case_statement(bool active) {
    ++at_;
    if (done()) return Truth::unknown;
    const int line = here().line;
    const ShellWord subject = variables_.expand_test(here().text, line);
    bool taken = false;
    while (!done() && here().text != "in") ++at_;
    if (!done()) ++at_;
    while (!done() && here().text != "esac") {
      bool matches = false;
      while (!done() && here().text != ")" && here().text != "esac") {
        if (here().kind == Kind::word) {
          const ShellWord pattern = variables_.expand_test(here().text, here().line);
          if (pattern.known && matches_pattern(subject.text, pattern.text)) matches = true;
        }
        ++at_;
      }
      if (is(Kind::separator, ")")) ++at_;
      const std::size_t begin = at_;
      const bool runs = active && subject.known && matches && !taken;
      list({";;", "esac"}, runs);
      if (active && !subject.known && has_flag(begin, at_))
        note(line,
             fmt::format("`case {}` is not decided; its branches are left out", printable(subject.text)));
      taken = taken || runs;
      if (is(Kind::separator, ";;")) ++at_;
    }
    if (!done()) ++at_;
    return Truth::yes;
  }

  Truth command(bool active) {
    const int line = here().line;
    if (here().kind == Kind::word && (here().text == "[" || here().text == "[[" || here().text == "test"))
      return test(active);
    std::vector<const ShellToken*> words;
    while (!done() && here().kind != Kind::separator) {
      if (here().kind == Kind::redirection) {
        if (!words.empty() && words.back()->text.size() == 1 &&
            std::string_view("012").find(words.back()->text) != std::string_view::npos)
          words.pop_back();
        ++at_;
        if (!done() && here().kind == Kind::word) ++at_;
        continue;
      }
      words.push_back(&here());
      ++at_;
    }
    if (!active || words.empty()) return Truth::unknown;
    static const Ends kDeclaring = {"export", "declare", "local", "readonly", "typeset"};
    const bool declares = kDeclaring.contains(words.front()->text);
    std::size_t first = declares ? words.size() : 0;
    while (first < words.size() && ShellVariables::assigns(*words[first])) ++first;
    if (first == words.size()) {
      for (const ShellToken* word : words) variables_.assign(*word);
      return Truth::yes;
    }
    // Assignments before a program are in its environment only.
    return run(
        std::vector<const ShellToken*>(words.begin() + static_cast<std::ptrdiff_t>(first), words.end()),
        line);
  }

  Truth run(const std::vector<const ShellToken*>& tokens, int line) {
    ShellCommand command{{}, line};
    for (const ShellToken* token : tokens) {
      if (token->kind == Kind::array) continue;
      for (ShellWord& word : variables_.expand(*token)) command.words.push_back(std::move(word));
    }
    if (command.words.empty()) return Truth::yes;
    const std::string& program = command.words.front().text;
    if (program == "false") return Truth::no;
    if (program == "exit") stopped_ = true;
    if (program == "unset") {
      for (const ShellWord& word : command.words) variables_.forget(word.text);
    }
    const bool sources = program == "source" || program == ".";
    if (sources && command.words.size() > 1 && read_sourced(command.words[1], line)) return Truth::yes;
    if (sources)
      note(line,
           fmt::format("`{}` is not read",
                       printable(command.words.size() > 1 ? "source " + command.words[1].text : program)));
    script_.commands.push_back(std::move(command));
    return Truth::yes;
  }

  Truth test(bool active) {
    const std::string_view close = here().text == "[" ? "]" : here().text == "[[" ? "]]" : "";
    std::vector<ShellWord> words;
    ++at_;
    while (!done() && (close.empty() ? here().kind != Kind::separator : here().text != close)) {
      if (close.empty() || here().text != "\n") {
        words.push_back(here().kind == Kind::word ? variables_.expand_test(here().text, here().line)
                                                  : ShellWord{here().text, here().line});
      }
      ++at_;
    }
    if (!close.empty() && !done()) ++at_;
    return active ? shell_test(words) : Truth::unknown;
  }

  void collect_variables() {
    std::vector<std::pair<int, const ShellVariable*>> ordered;
    for (const auto& [name, variable] : variables_.all()) ordered.emplace_back(variable.order, &variable);
    std::sort(ordered.begin(), ordered.end());
    for (const auto& [order, variable] : ordered) {
      if (variable->items.empty()) continue;
      script_.variables.push_back({variable->items, variable->items.front().line});
    }
  }

  const std::string& name_;
  const OtherFile& other_;
  ShellTokens split_;
  ShellVariables variables_;
  ShellScript script_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int sourced_ = 0;
  bool stopped_ = false;
};

}  // namespace

ShellScript read_shell_script(std::string_view text, const std::string& name, const OtherFile& other) {
  return ScriptReader(text, name, other).read();
}

std::vector<ShellWord> words_of_text(const ShellWord& word, const std::string& name) {
  std::vector<ShellWord> words;
  ShellVariables none(name);
  for (const ShellToken& token : split_shell(word.text, fmt::format("{}:{}", name, word.line)).tokens) {
    if (token.kind != ShellToken::Kind::word) continue;
    for (ShellWord each : none.expand(token)) {
      each.line = word.line;
      words.push_back(std::move(each));
    }
  }
  return words;
}

}  // namespace plumbline
