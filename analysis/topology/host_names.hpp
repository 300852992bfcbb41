// Slurm's lists of hosts: "node[01-04,7],gpu[1-2]x[0-3]".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// The names, in order; numbers keep their leading zeros. Reads untrusted text. Throws InputError, which
/// begins with `origin`, for unclosed brackets, ranges that run backwards, names with characters other than
/// letters, digits, '-', '_' and '.', and for more than `most` names.
std::vector<std::string> expand_hosts(std::string_view list, const std::string& origin, std::size_t most);

}  // namespace plumbline
