// Data files that are part of the program: machines and software generations, and published tables.
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

/// The .json files and the table of hardware/, and every .csv and .yaml of results/published/ and its 2026/.
std::span<const EmbeddedFile> analysis_files();

}  // namespace plumbline
