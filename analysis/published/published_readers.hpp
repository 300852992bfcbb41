// Readers of tables that are not step times of whole runs, in the files that hold them.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/compared_row.hpp"
#include "analysis/published/published_row.hpp"
#include "analysis/published/schedule_need.hpp"

namespace plumbline {

/// DualPipe's, zero-bubble's and VocabularyParallelism's formulas of bubble and activations, at one size.
void schedule_formulas(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers& make,
                       std::vector<ComparedRow>& rows);
/// arXiv:2401.10241 table 5: bubble rates of ZB-H1 and ZB-H2 under the times of its table 4.
void handcrafted_bubbles(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers& make,
                         std::vector<ComparedRow>& rows);
/// arXiv:2411.05288 table 3: how the vocabulary layers scale over the pipeline.
void vocabulary_scaling(const PublishedRow& row, const Profiles& profiles, const ScheduleMakers& make,
                        std::vector<ComparedRow>& rows);

/// GPT as Megatron-LM builds it, on one rank of an A100 with 80 GB in 16 bit.
RunConfig gpt_run(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab,
                  std::int64_t sequence, const char* software);

}  // namespace plumbline
