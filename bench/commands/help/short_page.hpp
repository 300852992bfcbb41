// The short form of a page, for --help: every option on one line, within one screen.
#pragma once

#include <string>

#include "bench/commands/help/text_page.hpp"

namespace plumbline {

/// Lines of a terminal that a short page stays within.
constexpr std::size_t kShortPageLines = 42;

/// Synopsis, commands or arguments and options, one line each, common configuration keys by name, and as many
/// examples as there is room for. Descriptions are cut at their first clause; --help-all has the whole.
std::string short_page(const Page& page, const TextStyle& style);

}  // namespace plumbline
