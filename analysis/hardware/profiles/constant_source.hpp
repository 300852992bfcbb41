// Source of a constant in the data files of this folder.
#pragma once

#include <string>
#include <string_view>

namespace plumbline {

/// Source of a constant of a software generation, its own or that of the generation it is based on; empty:
/// none given.
std::string source_of_software_constant(std::string_view software, std::string_view constant);

}  // namespace plumbline
