// Where a constant of the data files of this folder comes from.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::cluster {

/// The source of a constant of a generation of software, its own or the one that it continues; empty: nothing gives it.
std::string source_of_software_constant(std::string_view software, std::string_view constant);

}  // namespace plumbline::cluster
