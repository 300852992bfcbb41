// Version of the program.
#pragma once

namespace plumbline {

/// "1.2.3", or "1.2.3-4-gabcdef0" four commits after that tag (cmake/version.cmake).
const char* plumbline_version();

}  // namespace plumbline
