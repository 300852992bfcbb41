// The routing that `moe_routing` names, before a run: balanced, the worst one, a stated distribution, or one that was recorded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/work/routing/routed_rows.hpp"

namespace plumbline {

/// Of every copy of the model, layer with experts and micro-batch, in this order. Balanced: as evenly as can be, the first
/// experts have what is left. Worst: as many choices as can be fall on the experts of a group's first rank, evenly over these,
/// and the others evenly over the rest. zipf:S: the mean load, rounded. Throws InputError for a file that cannot be read or
/// is not as parse_routing() wants it.
std::vector<RoutedTokens> given_routing(const RunConfig& config);

/// What save_routing writes: a line of names, then one for every copy, layer with experts and micro-batch, in any order. Throws
/// InputError, "`origin`:line: found, expected", for other lines, lines that are missing or there twice, and experts whose
/// tokens do not add up to tokens × top-k or are more than there are.
std::vector<RoutedTokens> parse_routing(std::string_view text, const std::string& origin,
                                        const RunConfig& config);

/// Shares of a layer's choices that fall on each expert, by layer of the model; of a dense layer none.
using MeanLoad = std::vector<std::vector<double>>;
/// Even for balanced and worst, experts by rank^-S for zipf:S (Zipf), of a file its mean over copies and micro-batches.
/// `given`: given_routing() of the same. Throws InputError when one token after the other could not be routed so: an
/// expert's share is more than one of the k choices.
MeanLoad mean_load(const RunConfig& config, const std::vector<RoutedTokens>& given);

}  // namespace plumbline
