// Result of a search, as text and JSON.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/verdict.hpp"
#include "analysis/search/search.hpp"

namespace plumbline {

struct SearchContext {
  std::string software;
  std::string machine;
  Bytes limit;             // of the memory of a rank, see Fit
  bool by_device = false;  // likewise
  double seconds = 0;      // the search took
  int context = 1;         // largest context parallel size that was tried
  int expert = 0;          // likewise; 0: as many as there are experts
  std::string ways;        // of the best with context parallelism: context_report()'s lines
  /// The command line that predicts a candidate alone.
  std::function<std::string(const Candidate&)> command;
  /// Verdict on a candidate's memory, and the 80 % interval of real ÷ predicted steps of comparable runs.
  std::function<MemoryVerdict(const Fit&)> verdict{};
  std::optional<ErrorInterval> steps{};
};

/// The configuration keys of a candidate, as a run's file would set them.
std::vector<std::pair<std::string, std::string>> settings_of(const Candidate& candidate);

/// "tp 2, pp 16, dp 2, v-half, ...": only values other than the defaults.
std::string describe_candidate(const Candidate& candidate);
/// Reason why the second is slower than the first: the differences, and the part of the step that grew most.
std::string why_second(const Candidate& first, const Candidate& second);
/// Tables of at most `width` columns (0: no limit).
std::string search_text(const SearchResult& result, const SearchContext& context, int width = 0);
nlohmann::ordered_json to_json(const SearchResult& result, const SearchContext& context);
/// The same as text, indented.
std::string search_json(const SearchResult& result, const SearchContext& context);

}  // namespace plumbline
