// Attention work of a run with packed_sequence, from its data.
#pragma once

#include <cstdint>
#include <span>

#include "analysis/predict/packed_sequences.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Sets config.batch.packed, with which predictions price packed conversations; nothing without
/// packed_sequence, or if the configuration is invalid. Throws InputError for data that are no chats.
void add_packed_work(RunConfig& config);

/// Documents of a run and their work.
struct PackedDocuments {
  PackedSequences packed;
  PackedWork work;
};

/// Packs documents of these lengths in tokens; `name` is that of the list in errors. The configuration must
/// be valid. Throws InputError, also with packed_sequence, whose data have lengths of their own.
PackedDocuments pack_documents(std::span<const std::int64_t> lengths, const char* name,
                               const RunConfig& config);

/// `sequence_lengths` of `predict --json`: numbers of documents, sequences and tokens, and their work as
/// shares of that of whole sequences.
OrderedJson to_json(const PackedDocuments& documents);

}  // namespace plumbline
