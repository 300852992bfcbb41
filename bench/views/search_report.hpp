// What a search found, as text and JSON.
#pragma once

#include <string>

#include "analysis/search/search.hpp"

namespace plumbline {

struct SearchContext {
  std::string machine;
  Bytes limit;             // of the memory of a rank, see Fit
  bool by_device = false;  // likewise
  double seconds = 0;      // the search took
  SearchLimits limits;
  std::string ways;  // of the best with context parallelism: context_report()'s lines
};

/// "tp 2, pp 16, dp 2, v-half, ...": only what is not the default.
std::string describe_candidate(const Candidate& candidate);
/// Why the second is slower than the first: what differs, and the part of the step that grew most.
std::string why_second(const Candidate& first, const Candidate& second);
std::string search_text(const SearchResult& result, const SearchContext& context);
std::string search_json(const SearchResult& result, const SearchContext& context);

}  // namespace plumbline
