// The prose of the manual, built into the program from the files of this folder.
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

/// exit_codes.md, files.md, glossary.md, keys.md, software.md.
std::span<const EmbeddedFile> help_files();
/// pages/*.md, the program's own first.
std::span<const EmbeddedFile> help_pages();

}  // namespace plumbline
