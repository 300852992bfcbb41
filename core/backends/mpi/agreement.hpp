// Values that must be the same on every rank before ranks do anything together.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// Names and values: the version of the program, the keys of the configuration.
using RankFacts = std::vector<std::pair<std::string, std::string>>;

/// Collective over all ranks of the job, before any communicator is made. A rank with another configuration
/// would wait for messages that never come. When facts differ, rank 0 throws InputError: one line with the
/// name, both values, and the ranks and hosts that have them. The others wait for their end.
void require_same_on_all_ranks(const RankFacts& facts);

/// The same from the ranks' facts, in their order: the line, empty when all agree.
std::string first_difference(const std::vector<RankFacts>& ranks, const std::vector<std::string>& hosts);

}  // namespace plumbline
