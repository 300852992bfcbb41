// A page of the manual for man(1).
#pragma once

#include <string>

#include "bench/commands/help/page.hpp"

namespace plumbline {

/// In man(7)'s macros, section 1; `version` is printed in the footer.
std::string man_page(const Page& page, const std::string& version);

/// Text that troff prints unchanged: backslashes, hyphens and lines that begin like a request are escaped.
std::string troff_escaped(std::string_view text);

}  // namespace plumbline
