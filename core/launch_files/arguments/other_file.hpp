// Files that a launch file names.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace plumbline {

/// Text of a file that a launch file names, by the path as written; nothing when there is none.
using OtherFile = std::function<std::optional<std::string>(const std::string& path)>;

}  // namespace plumbline
