// Routing that `moe_routing` names, before a run: balanced, the worst one, a stated distribution, or a
// recorded one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/work/routing/routed_rows.hpp"

namespace plumbline {

/// Routing of every copy of the model, MoE layer (MTP modules behind the model's layers) and micro-batch, in
/// this order. Balanced: as even as possible, the first experts take the remainder. Worst: as many choices as
/// possible fall on the experts of a group's first rank. Both these and the others are spread evenly over
/// their experts. zipf:S: the mean load, rounded. A file: its last step. Throws InputError for a file that
/// cannot be read or that parse_routing_steps() refuses.
std::vector<RoutedTokens> given_routing(const RunConfig& config);
/// All steps of a file in order; one step without a file. A dense student has no lines.
std::vector<std::vector<RoutedTokens>> given_steps(const RunConfig& config);
/// The same of a teacher with experts on several ranks, from the file beside that of moe_routing
/// (teacher_routing_file()); empty without such a teacher or file: its rows are even.
std::vector<std::vector<RoutedTokens>> given_teacher_steps(const RunConfig& config);

/// Parses the output of save_routing: a line of names, then one for every step, copy, MoE layer and
/// micro-batch, in any order. A file without the column `step` has one step. Throws InputError,
/// "`origin`:line: found, expected", for other lines, for missing or repeated ones, and for experts whose
/// tokens do not add up to tokens × top-k or exceed the tokens.
std::vector<std::vector<RoutedTokens>> parse_routing_steps(std::string_view text, const std::string& origin,
                                                           const RunConfig& config);
/// The last step of parse_routing_steps().
std::vector<RoutedTokens> parse_routing(std::string_view text, const std::string& origin,
                                        const RunConfig& config);

/// Shares of a layer's choices that fall on each expert, by layer of the model; of a dense layer none.
using MeanLoad = std::vector<std::vector<double>>;
/// Even for balanced and worst, experts by rank^-S for zipf:S (Zipf), for a file its mean over copies and
/// micro-batches. `given`: given_routing() of the same. Throws InputError when single tokens could not be
/// routed so: an expert's share is more than one of the k choices.
MeanLoad mean_load(const RunConfig& config, const std::vector<RoutedTokens>& given);

}  // namespace plumbline
