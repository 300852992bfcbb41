// The glossary of glossary.md: looked up by term, printed in the program's help.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/commands/help/described.hpp"
#include "bench/commands/help/text_page.hpp"

namespace plumbline {

using Term = Described;  // its meaning is one paragraph, without markup

/// All terms in the order of the file.
const std::vector<Term>& glossary();

/// The terms that `words` mean: the one of that name, its abbreviation ("TP"), or else those whose name holds
/// the words. Upper and lower case, and hyphens and blanks, are the same.
std::vector<Term> find_terms(std::string_view words);

/// Terms below the headings of their sections.
std::string to_text(const std::vector<Term>& terms, const TextStyle& style);

}  // namespace plumbline
