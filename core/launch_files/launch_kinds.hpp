// Kinds of files that are known and not read, by the words that tell them.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Throws InputError for a file of such a kind: its name, and keys of plumbline to give instead.
void refuse_unread_file(std::string_view text, const std::string& name);
/// The same for a shell script or a program.
void refuse_unread_script(std::string_view text, const std::string& name);

}  // namespace plumbline
