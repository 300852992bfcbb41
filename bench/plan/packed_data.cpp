#include "bench/plan/packed_data.hpp"

#include <fmt/format.h>

#include "analysis/predict/dynamic_context.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {

void add_packed_work(RunConfig& config) {
  if (!config.batch.packed_sequence || why_invalid(config)) return;
  config.batch.packed = work_of_chats(read_packed_chats(config), config).attention;
}

PackedDocuments pack_documents(std::span<const std::int64_t> lengths, const char* name,
                               const RunConfig& config) {
  if (config.batch.packed_sequence) {
    throw InputError(
        fmt::format("{}: found with packed_sequence, expected one of them; leave one out", name));
  }
  PackedDocuments made{pack_sequences(lengths, name, config.batch.seq_length), {}};
  made.work = packed_work(made.packed, config);
  return made;
}

OrderedJson to_json(const PackedDocuments& documents) {
  const auto& [packed, work] = documents;
  return {{"documents", packed.lengths.size()},
          {"sequences", packed.first_of.size()},
          {"tokens", packed.tokens},
          {"longest", packed.longest},
          {"pairs_of_whole_sequences", work.attention.mean},
          {"slowest_ranks", work.attention.slowest},
          {"context_ranks_over_mean", work.by_context_rank}};
}

}  // namespace plumbline
