// The slow ranks of a record in words.
#pragma once

#include <string>
#include <vector>

#include "analysis/stragglers/slow_ranks.hpp"
#include "bench/record/record.hpp"

namespace plumbline {

/// Slow ranks of a measurement by slow_ranks(); empty if none can be named.
std::vector<SlowRank> slow_ranks_of(const MeasurementReport& measurement);
/// Number of its ranks that are compared with others of their stage.
std::size_t compared_ranks(const MeasurementReport& measurement);
/// Slow ranks of every record, or a note that there are none.
std::string slow_ranks_text(const std::vector<Record>& records);
/// {"records": [{"id", "compared_ranks", "slow_ranks": [{"rank", "factor", "standard_errors"}]}]}
std::string slow_ranks_json(const std::vector<Record>& records);
/// "rank 3 computes 1.100 times as long as the others of its stage (12.1 standard errors)".
std::string slow_rank_line(const SlowRank& slow);

}  // namespace plumbline
