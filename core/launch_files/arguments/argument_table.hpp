// The table of a framework's arguments: what becomes of each. One file per framework, embedded.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/embedded_file.hpp"

namespace plumbline {

enum class ArgumentFate { key, rule, model, without_effect, approximated, not_modelled };

struct ArgumentRow {
  ArgumentFate fate = ArgumentFate::key;
  std::string detail;                   // the key (or key=value, or keys of a rule), or the reason
  std::vector<std::string> harmless{};  // of not_modelled: values that say nothing
};

/// Name that another name stands for, as in a YAML file: "add_bias_linear" is the opposite of a flag.
struct ArgumentName {
  std::string flag;
  bool opposite = false;
};

class ArgumentTable {
 public:
  /// Reads the text of a table; `name` stands for it in messages.
  ArgumentTable(std::string_view text, const std::string& name);

  /// nullptr when unknown: only the exact spelling is known. A row "section.*" is that of all below it.
  const ArgumentRow* find(const std::string& name) const;
  /// Row of a name without dashes in front; nullptr when it has no row of its own.
  const ArgumentName* other_name(const std::string& name) const;
  /// The name that stands for a flag, or that is its opposite; nullptr when it is the flag without dashes.
  const std::pair<const std::string, ArgumentName>* name_of(const std::string& flag) const;
  /// A similar known name, as its format spells it; empty when none is.
  std::string nearest(const std::string& name) const;
  /// Reason of a refusal, with nearest() as hint.
  static std::string unknown(const std::string& framework, const std::string& hint);
  const std::map<std::string, ArgumentRow>& rows() const { return rows_; }

 private:
  std::map<std::string, ArgumentRow> rows_;
  std::map<std::string, ArgumentName> names_;
};

/// Table files of all frameworks (cmake/embed.cmake).
std::span<const EmbeddedFile> launch_tables();
/// The table `file`, "megatron_flags.txt".
const ArgumentTable& argument_table(std::string_view file);

}  // namespace plumbline
