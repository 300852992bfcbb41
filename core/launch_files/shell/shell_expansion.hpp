// Variables of a shell script and the words that they expand to. What the script alone does not determine
// stays as written and is marked.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_words.hpp"

namespace plumbline {

/// Length of the variable name that `text` begins with; 0: none.
std::size_t name_length(std::string_view text);

struct ShellWord {
  std::string text;
  int line = 1;
  bool known = true;
  bool quoted = false;
};

struct ShellVariable {
  std::vector<ShellWord> items;  // one, but of an array
  bool array = false;
  int order = 0;  // of its first assignment
};

class ShellVariables {
 public:
  explicit ShellVariables(std::string name) : name_(std::move(name)) {}

  /// The words that a word as written becomes; none for an empty unquoted variable. Throws InputError when
  /// more than 1 MiB come of it.
  std::vector<ShellWord> expand(const ShellToken& token);
  /// The same as one word, without splitting: values of assignments.
  ShellWord expand_whole(const std::string& text, int line);
  /// Values in tests: a variable that is not set is empty.
  ShellWord expand_test(const std::string& text, int line);

  /// NAME=value, NAME+=value or NAME=(...).
  static bool assigns(const ShellToken& token);
  /// Takes `token` as an assignment if it is one.
  void assign(const ShellToken& token);
  void forget(const std::string& name) { variables_.erase(name); }
  const std::map<std::string, ShellVariable>& all() const { return variables_; }

  /// An arithmetic expression of numbers and variables; nothing if it is another.
  std::optional<std::int64_t> arithmetic(std::string_view text) const;

 private:
  friend class WordExpander;
  const ShellVariable* find(const std::string& name) const;
  void count(std::size_t bytes);

  std::string name_;
  std::map<std::string, ShellVariable> variables_;
  std::size_t bytes_ = 0;
  int depth_ = 0;
};

}  // namespace plumbline
