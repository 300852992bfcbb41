// Files of frameworks that are not read, by the words that tell them.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Throws InputError for a file of a framework that is known and not read, with the keys to give instead.
void refuse_unread_yaml(std::string_view text, const std::string& name);
/// The same of a shell script.
void refuse_unread_script(std::string_view text, const std::string& name);

}  // namespace plumbline
