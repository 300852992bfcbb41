// Documents of given lengths, packed one after another into sequences: the remaining token pairs of
// attention, and their imbalance over ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

struct PackedSequences {
  std::int64_t seq_length = 0;
  std::vector<std::int64_t> lengths;  // tokens of the documents, in order
  std::vector<std::size_t> first_of;  // of every sequence the document that it begins with
  std::int64_t tokens = 0;
  std::int64_t longest = 0;  // tokens of a document
};

/// Packs documents into sequences of seq_length tokens in their order. A document that does not fit into the
/// rest of a sequence begins the next one; the gap is padding. `text` has a length per line, from 1 to
/// seq_length; empty lines are skipped. Throws InputError with `name` and the line.
PackedSequences pack_sequences(std::string_view text, const std::string& name, std::int64_t seq_length);
/// Packs given lengths, each 1 to seq_length. Throws InputError with `name` and the index.
PackedSequences pack_sequences(std::span<const std::int64_t> lengths, const std::string& name,
                               std::int64_t seq_length);
/// The same for a file. Throws InputError also if it cannot be read or is larger than 16 MiB.
PackedSequences read_sequence_lengths(const std::string& path, std::int64_t seq_length);

/// Attention among the tokens of one document each, padding not counted.
struct PackedWork {
  PackedAttention attention;  // input of a prediction (BatchConfig::packed)
  std::vector<double>
      by_context_rank;  // pairs of the ranks, or groups of a ring, of a sequence, over their mean
};

/// Sequences go to steps, micro-batches and replicas in the order of training data, and start over after the
/// last. plumbline's ranks have chunks of whole sequences; other software splits every document evenly over
/// its ranks. Throws InputError with a window, a prefix or unfused attention, whose pairs do not follow from
/// the lengths alone, and for more sequences than can be counted.
PackedWork packed_work(const PackedSequences& packed, const RunConfig& config);

/// Chats of a run with packed_sequence: an epoch's packs in the order of its samples (ChatOrder). Throws
/// InputError as ChatData does.
PackedSequences read_packed_chats(const RunConfig& config);

/// For people, two lines.
std::string describe(const PackedSequences& packed, const PackedWork& work);

}  // namespace plumbline
