// Expansion of one word (shell_expansion.hpp): quotes, variables, arithmetic, and marks of what is not known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {

/// Lives for one word.
class WordExpander {
 public:
  struct Mode {
    bool split = false;
    bool pattern = false;
    bool assignment = false;  // a tilde behind a colon counts
  };
  WordExpander(ShellExpansion& in, int line, Mode mode)
      : in_(in), state_(in.state_), context_(in.context_), line_(line), mode_(mode), word_{"", line} {}
  std::vector<ShellWord> words(std::string_view text, bool in_quotes = false);

 private:
  std::string not_evaluated() const;
  void run(std::string_view text, bool in_quotes);
  bool tilde(std::string_view text, std::size_t at, bool begins) const;
  void literal(char c);
  /// Characters without a special meaning.
  void quoted(std::string_view text);
  void in_double_quotes(std::string_view text);
  static std::size_t closing_backquote(std::string_view text, std::size_t at);
  /// Length of a quoted part, quotes included.
  static std::size_t quoted_length(std::string_view text);
  static std::size_t closing_quote(std::string_view text, std::size_t at);
  /// Length of the bracketed part at the front of `text`, brackets included.
  static std::size_t bracketed(std::string_view text);
  /// Adds the value of $(expr 16 / $N): whole numbers and + - * / %. False: it is another command.
  bool sum_of_expr(std::string_view whole, bool in_quotes);
  /// Expands what starts with a dollar sign; returns its length.
  std::size_t dollar(std::string_view text, bool in_quotes);
  void special(std::string_view whole, bool in_quotes);
  enum class Items { first, all, joined };
  /// ${inside}, written as `whole`.
  void parameter(std::string_view inside, std::string_view whole, bool in_quotes);
  std::optional<std::int64_t> number_in(std::string_view text, std::string_view whole);
  /// A variable all of whose items are known; nullptr: another.
  const ShellVariable* known_variable(const std::string& name) const;
  /// ${#NAME} and ${#NAME[@]}, of which `inside` is what follows the sign; false: it is not evaluated.
  bool counted_items(std::string_view inside);
  /// Items of a known variable behind an operator that changes them: ${A%x}, ${A/x/y}, ${A:1:2}, ${A,,}.
  std::optional<std::vector<ShellWord>> operated_items(const std::string& name, std::string_view rest,
                                                       std::string_view whole, Items items);
  /// "1:2" of the characters of one item, or of the items of an array.
  std::optional<std::vector<ShellWord>> sliced(std::vector<ShellWord> all, std::string_view numbers,
                                               std::string_view whole, Items items);
  void take_default(const std::string& name, std::string_view otherwise, std::string_view whole);
  void default_value(std::string_view text, bool in_quotes);
  /// The variable is set (and with a colon, not empty); nothing: unknown.
  std::optional<bool> is_given(const std::string& name, bool colon, Items items) const;
  static std::optional<bool> filled(const std::string& text, bool colon);
  void not_evaluated_parameter(std::string_view inside, std::string_view whole, bool in_quotes);
  void value_of(const std::string& name, std::string_view whole, bool in_quotes, Items items,
                std::size_t index = 0);
  void put_items(const std::vector<ShellWord>& all, std::string_view whole, bool in_quotes, Items items);
  bool ifs_changes() const;
  void item(const ShellWord& value, bool in_quotes);
  void add(std::string_view text);
  void marked(std::string_view mark, bool in_quotes);
  void unknown(std::string_view whole, UnknownCause cause, std::string reason, bool splits);
  void end_word();

  ShellExpansion& in_;
  ShellState& state_;
  ShellContext& context_;
  int line_;
  Mode mode_;
  std::vector<ShellWord> words_;
  ShellWord word_;
  bool open_ = false;           // the word has begun, though it may be empty
  bool matches_files_ = false;  // an unquoted * or ?
  bool bracket_ = false;
  bool no_items_ = false;  // an empty array was expanded
  int in_default_ = 0;
};

}  // namespace plumbline
