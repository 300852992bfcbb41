// The search of `plumbline search`, for programs as well.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "analysis/search/search.hpp"
#include "bench/show/views/search_report.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/overrides.hpp"

namespace plumbline {

struct SearchQuestion {
  std::string source;  // as in AskedConfig
  Overrides keys;
  int top = 10;
  int threads = 0;                  // 0: one per processor
  std::optional<int> most_context;  // nothing: as the sequence asks for
  int most_experts = 0;             // 0: up to the number of experts
  double deadline_s = 0;            // seconds after which it ends with what it has found; 0: none
  std::function<bool()> stopped{};  // as in SearchRequest
  std::function<void(const Candidate&)> found{};  // likewise
};

struct SearchAnswer {
  RunConfig config;  // searched: candidates set the rest of it
  SearchResult result;
  SearchContext context;
};

/// Throws InputError for a number out of its range.
void check_numbers(const SearchQuestion& question);

/// `config` with the vocabulary that its software has, unless the question gives it.
RunConfig searched_config(const SearchQuestion& question, RunConfig config);

/// The `predict` command of one candidate: the question's keys, and the candidate's keys that differ.
/// `config` is the question's, `base` that of the search.
std::string predict_command(const SearchQuestion& asked, const RunConfig& config, const RunConfig& base,
                            const Candidate& candidate);

/// Searches for `given`, which is the question's. Throws InputError when it cannot be searched, OutOfMemory
/// when nothing fits, Error (timed_out) when it was stopped before it found anything that fits, and whatever
/// `progress(done, all)` throws, which ends the search.
SearchAnswer answer_search(const SearchQuestion& question, const RunConfig& given,
                           const std::function<void(int, int)>& progress = {});

}  // namespace plumbline
