// The tables that are part of the program.
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

/// The files of analysis/silicon/tables/, named like their paths with _ for /.
std::span<const EmbeddedFile> silicon_files();

}  // namespace plumbline
