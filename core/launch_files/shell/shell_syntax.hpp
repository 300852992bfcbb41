// The commands of a shell script as a tree. Nothing is expanded or executed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_words.hpp"

namespace plumbline {

struct ShellNode;
using ShellNodePtr = std::shared_ptr<const ShellNode>;

struct ShellCase {
  std::vector<ShellToken> patterns;
  ShellNodePtr body;
  std::string end;  // ;; ;& or ;;&
};

struct ShellNode {
  enum class Kind {
    list,        // parts in order
    chain,       // parts joined by && and ||
    pipeline,    // parts joined by |
    command,     // words
    test,        // [[ words ]]
    arithmetic,  // (( words[0] ))
    branch,      // if: parts are condition, body, condition, body, ..., and a last body for else
    loop,        // while, until: condition and body
    each,        // for, select: words are name and items
    counted,     // for ((words[0])): body
    choice,      // case: words[0]
    group,       // { }
    subshell,    // ( )
    function,    // text is its name
  };
  Kind kind = Kind::list;
  int line = 1;
  std::string text{};  // the word that opens it, or a name
  std::vector<ShellNodePtr> parts{};
  std::vector<std::string> joints{};  // of a chain: "&&" or "||" in front of each part but the first
  std::vector<ShellToken> words{};
  std::vector<ShellToken> redirections{};  // each sign, with its target behind it if that is a word
  std::vector<ShellCase> cases{};
  bool negated = false;     // a pipeline behind !
  bool background = false;  // a chain before &
  bool has_items = false;   // of each: "in" is written
};

/// Throws InputError for a script that bash would refuse, for blocks that nest more than 60 deep, and as
/// split_shell() does.
ShellNodePtr parse_shell(std::vector<ShellToken> tokens, const std::string& name);

}  // namespace plumbline
