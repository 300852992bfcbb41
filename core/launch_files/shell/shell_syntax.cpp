#include "core/launch_files/shell/shell_syntax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

namespace plumbline {
namespace {

constexpr int kDeepestScript = 60;

class ShellParser {
 public:
  ShellParser(std::vector<ShellToken> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  ShellNodePtr script() {
    ShellNodePtr all = list();
    if (!done()) refuse("a command");
    return all;
  }

 private:
  using Kind = ShellNode::Kind;
  using Token = ShellToken::Kind;
  using Node = std::shared_ptr<ShellNode>;

  bool done() const { return at_ >= tokens_.size(); }
  const ShellToken& here() const { return tokens_[at_]; }
  bool sign(std::string_view text, std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() && tokens_[at_ + ahead].kind == Token::separator &&
           tokens_[at_ + ahead].text == text;
  }
  bool word(std::string_view text) const {
    return !done() && here().kind == Token::word && here().text == text;
  }
  bool take_word(std::string_view text) {
    if (!word(text)) return false;
    ++at_;
    return true;
  }
  void lines() {
    while (sign("\n")) ++at_;
  }

  [[noreturn]] void refuse(std::string_view expected) const {
    const int line = tokens_.empty() ? 1 : done() ? tokens_.back().line : here().line;
    const std::string found = done() ? "the end" : here().text == "\n" ? "the end of the line" : here().text;
    throw InputError(fmt::format("{}:{}: found `{}`, expected {} of a shell script", name_, line,
                                 printable(found), expected));
  }
  void require(std::string_view text) {
    if (!take_word(text)) refuse(fmt::format("`{}`", text));
  }

  Node node(Kind kind) const {
    Node made = std::make_shared<ShellNode>();
    made->kind = kind;
    if (!done()) made->line = here().line;
    return made;
  }

  /// A word that only closes what another opened.
  bool closes() const {
    static const std::set<std::string_view> kClosing = {"fi",   "done", "esac", "}",
                                                        "then", "else", "elif", "do"};
    if (here().kind == Token::word) return kClosing.contains(here().text);
    return sign(")") || sign(";;") || sign(";&") || sign(";;&");
  }

  ShellNodePtr list() {
    if (++depth_ > kDeepestScript)
      throw InputError(
          fmt::format("{}: blocks nest more than {} deep, expected a launch script", name_, kDeepestScript));
    const Node list = node(Kind::list);
    for (lines(); !done() && !closes(); lines()) {
      list->parts.push_back(chain());
      if (sign(";") || sign("\n") || sign("&")) {
        ++at_;
      } else if (!done() && !closes()) {
        refuse("the end of a command");
      }
    }
    --depth_;
    return list;
  }

  ShellNodePtr commands() {
    ShellNodePtr made = list();
    if (made->parts.empty()) refuse("a command");
    return made;
  }

  ShellNodePtr chain() {
    const Node chain = node(Kind::chain);
    chain->parts.push_back(pipeline());
    while (sign("&&") || sign("||")) {
      chain->joints.push_back(here().text);
      ++at_;
      lines();
      chain->parts.push_back(pipeline());
    }
    chain->background = sign("&");
    if (chain->parts.size() == 1 && !chain->background) return chain->parts.front();
    return chain;
  }

  ShellNodePtr pipeline() {
    const Node pipeline = node(Kind::pipeline);
    if (take_word("time")) take_word("-p");
    while (take_word("!")) pipeline->negated = !pipeline->negated;
    pipeline->parts.push_back(command());
    while (sign("|") || sign("|&")) {
      ++at_;
      lines();
      pipeline->parts.push_back(command());
    }
    if (pipeline->parts.size() == 1 && !pipeline->negated) return pipeline->parts.front();
    return pipeline;
  }

  ShellNodePtr command() {
    if (done() || closes()) refuse("a command");
    Node made;
    if (here().kind == Token::arithmetic) {
      made = node(Kind::arithmetic);
      made->words.push_back(here());
      ++at_;
    } else if (sign("(")) {
      made = block(Kind::subshell);
    } else if (here().kind == Token::word) {
      const std::string& text = here().text;
      if (text == "if") {
        made = branch();
      } else if (text == "while" || text == "until") {
        made = loop();
      } else if (text == "for" || text == "select") {
        made = each();
      } else if (text == "case") {
        made = choice();
      } else if (text == "{") {
        made = block(Kind::group);
      } else if (text == "[[") {
        made = test();
      } else if (text == "coproc") {
        refuse("another command than a coprocess");
      } else if (text == "function" || (sign("(", 1) && sign(")", 2))) {
        return function();
      }
    }
    if (!made) return simple();
    while (!done() && here().kind == Token::redirection) redirection(*made);
    return made;
  }

  ShellNodePtr simple() {
    Node made = node(Kind::command);
    while (!done() && here().kind != Token::separator) {
      if (here().kind == Token::redirection) {
        redirection(*made);
      } else if (here().kind == Token::arithmetic) {
        refuse("a word");
      } else {
        made->words.push_back(here());
        ++at_;
      }
    }
    if (sign("(") || (made->words.empty() && made->redirections.empty())) refuse("a command");
    return made;
  }

  void redirection(ShellNode& of) {
    const bool document = here().text == "<<";
    of.redirections.push_back(here());
    ++at_;
    if (document) return;
    if (done() || here().kind != Token::word) refuse("a file");
    of.redirections.push_back(here());
    ++at_;
  }

  Node block(Kind kind) {
    Node made = node(kind);
    ++at_;
    made->parts.push_back(commands());
    if (kind == Kind::group) {
      require("}");
    } else {
      if (!sign(")")) refuse("`)`");
      ++at_;
    }
    return made;
  }

  Node branch() {
    Node made = node(Kind::branch);
    do {
      ++at_;
      made->parts.push_back(commands());
      require("then");
      made->parts.push_back(commands());
    } while (word("elif"));
    if (take_word("else")) made->parts.push_back(commands());
    require("fi");
    return made;
  }

  Node loop() {
    Node made = node(Kind::loop);
    made->text = here().text;
    ++at_;
    made->parts.push_back(commands());
    made->parts.push_back(body());
    return made;
  }

  ShellNodePtr body() {
    require("do");
    ShellNodePtr made = commands();
    require("done");
    return made;
  }

  Node each() {
    Node made = node(Kind::each);
    made->text = here().text;
    ++at_;
    if (!done() && here().kind == Token::arithmetic) {
      made->kind = Kind::counted;
      made->words.push_back(here());
      ++at_;
    } else {
      if (done() || here().kind != Token::word || name_length(here().text) != here().text.size())
        refuse("a variable");
      made->words.push_back(here());
      ++at_;
      lines();
      if (take_word("in")) {
        made->has_items = true;
        for (; !done() && here().kind == Token::word; ++at_) made->words.push_back(here());
      }
    }
    if (sign(";")) ++at_;
    lines();
    made->parts.push_back(word("{") ? block(Kind::group) : body());
    return made;
  }

  Node choice() {
    Node made = node(Kind::choice);
    ++at_;
    if (done() || here().kind != Token::word) refuse("a word");
    made->words.push_back(here());
    ++at_;
    lines();
    require("in");
    for (lines(); !done() && !word("esac"); lines()) {
      ShellCase found;
      if (sign("(")) ++at_;
      do {
        if (done() || here().kind != Token::word) refuse("a pattern");
        found.patterns.push_back(here());
        ++at_;
      } while (sign("|") && ++at_ > 0);
      if (!sign(")")) refuse("`)`");
      ++at_;
      found.body = list();
      if (!word("esac")) {
        if (!sign(";;") && !sign(";&") && !sign(";;&")) refuse("`;;`");
        found.end = here().text;
        ++at_;
      }
      made->cases.push_back(std::move(found));
    }
    require("esac");
    return made;
  }

  Node test() {
    Node made = node(Kind::test);
    ++at_;
    for (; !done() && !word("]]"); ++at_)
      if (!sign("\n")) made->words.push_back(here());
    require("]]");
    return made;
  }

  ShellNodePtr function() {
    Node made = node(Kind::function);
    take_word("function");
    if (done() || here().kind != Token::word) refuse("a function's name");
    made->text = here().text;
    ++at_;
    if (sign("(") && sign(")", 1)) at_ += 2;
    lines();
    made->parts.push_back(command());
    return made;
  }

  std::vector<ShellToken> tokens_;
  const std::string& name_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellNodePtr parse_shell(std::vector<ShellToken> tokens, const std::string& name) {
  return ShellParser(std::move(tokens), name).script();
}

}  // namespace plumbline
