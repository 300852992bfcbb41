// Writing a file whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"

namespace plumbline {

/// Where this process keeps what becomes `path` when it is whole: in the same folder, so that renaming it
/// cannot fail for another disk.
std::string temporary_name(const std::string& path);

/// Writes the file whole or not at all: alongside, then renamed. What is at `path` and no regular file (a
/// device, a pipe, a link) is written where it is. Throws one line with the path and what the system said:
/// InputError for ExitCode::bad_input (the user chose the path), else Error with that code.
void write_whole_file(const std::string& path, std::string_view bytes, ExitCode code = ExitCode::bad_input);

/// For files that are written at the end of long work: throws InputError, beginning with `what`, when `path` is a
/// folder, or its folder is not there or not writable.
void check_can_write(const std::string& path, const std::string& what);
/// The same for a folder that is made when it is missing.
void check_can_fill(const std::string& folder, const std::string& what);

}  // namespace plumbline
