// The style sheet and the script of the report page, built into the program from assets/.
#pragma once

#include <span>

#include "core/base/embedded_file.hpp"

namespace plumbline {

/// The style sheet, then the script; their SHA-256 is for the page's content policy.
std::span<const EmbeddedFile> report_assets();

inline const EmbeddedFile& report_style() {
  return report_assets()[0];
}
inline const EmbeddedFile& report_script() {
  return report_assets()[1];
}

}  // namespace plumbline
