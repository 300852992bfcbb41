// Assignments to the variables of a script.
#include <utility>

#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {

bool ShellVariables::assigns(const ShellToken& token) {
  const std::size_t length = name_length(token.text);
  const std::string_view rest = std::string_view(token.text).substr(length);
  return length > 0 && (rest.starts_with("=") || rest.starts_with("+="));
}

void ShellVariables::assign(const ShellToken& token) {
  if (!assigns(token)) return;
  const std::size_t length = name_length(token.text);
  std::string_view rest = std::string_view(token.text).substr(length);
  const bool append = rest.starts_with("+=");
  rest.remove_prefix(append ? 2 : 1);
  const std::string name = token.text.substr(0, length);
  ShellVariable value;
  if (token.kind == ShellToken::Kind::array) {
    value.array = true;
    for (const ShellToken& item : token.items) {
      if (item.kind != ShellToken::Kind::word) continue;
      for (ShellWord& word : expand(item)) value.items.push_back(std::move(word));
    }
  } else {
    value.items.push_back(expand_whole(std::string(rest), token.line));
    value.items.front().line = token.line;
  }
  const auto found = variables_.find(name);
  value.order = found == variables_.end() ? static_cast<int>(variables_.size()) + 1 : found->second.order;
  if (append && found != variables_.end()) {
    ShellVariable& before = found->second;
    if (value.array || before.array) {
      before.array = true;
      before.items.insert(before.items.end(), value.items.begin(), value.items.end());
    } else if (!before.items.empty()) {
      count(before.items.front().text.size());
      before.items.front().text += value.items.front().text;
      if (!value.items.front().known) before.items.front().known = false;
    } else {
      before.items = std::move(value.items);
    }
  } else {
    variables_[name] = std::move(value);
  }
}

}  // namespace plumbline
