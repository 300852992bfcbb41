// Data files that are part of the program: machines and software generations, and published tables.
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

/// hardware/clusters.json and every .csv of results/published/.
std::span<const EmbeddedFile> analysis_files();

}  // namespace plumbline
