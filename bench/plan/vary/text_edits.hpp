// Edits of one argument in the text of a launch file, as candidates: the caller reads each back and takes the
// first that says what it should.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// One argument of a framework as it should be.
struct WantedArgument {
  std::string name;                  // "--recompute-method", "training.local_batch_size", "tp"
  std::optional<std::string> value;  // nothing: a switch without a value
  bool removed = false;              // the file should not have it
};

enum class TextFormat { shell, toml, yaml, json };

/// Texts in which the argument has the value: in place of each of its values, of the variables in them, or,
/// where the file does not have it, in front of `siblings`, arguments of the same command or section.
std::vector<std::string> edited_texts(std::string_view text, TextFormat format,
                                      const WantedArgument& argument,
                                      const std::vector<std::string>& siblings);

}  // namespace plumbline
