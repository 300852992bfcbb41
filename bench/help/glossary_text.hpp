// The contents of glossary.md, made by embed.cmake.
#pragma once

#include <string_view>

namespace plumbline {

std::string_view glossary_markdown();

}  // namespace plumbline
