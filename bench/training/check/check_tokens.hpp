// The sequences that two checkpoints are evaluated on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline::training {

/// `sequences` runs of seq_length + 1 ids each, the last of one being the first of the next; a file begins
/// again at its end. From a text (.txt) of ids separated by blanks or commas, from .npy or raw int32
/// (core/files/token_data.hpp), or, without a file, drawn by the seed. Throws InputError with the place of an
/// entry that is no id of the vocabulary.
std::vector<std::vector<std::int32_t>> check_tokens(const std::string& file, std::int64_t vocab,
                                                    std::int64_t seq_length, int sequences,
                                                    std::uint64_t seed);

}  // namespace plumbline::training
