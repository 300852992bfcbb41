// Data files that are part of the program: it works from any folder.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::cluster {

/// Name and text of every embedded file, by name.
const std::vector<std::pair<std::string_view, std::string>>& embedded_files();
/// One of them; empty when there is none of that name.
std::string_view embedded_file(std::string_view name);

}  // namespace plumbline::cluster
