#include "bench/commands/operators/operator_kinds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

using silicon::Clock;
using silicon::OperatorLookup;
using silicon::OperatorTime;

std::string type_of(const OperatorWords& shape, std::initializer_list<std::string_view> types) {
  std::string type = shape.word("type", "bf16");
  if (std::find(types.begin(), types.end(), type) == types.end()) {
    shape.refuse("type", type, fmt::format("{}", fmt::join(types, ", ")));
  }
  return type;
}

OperatorTime sum(const OperatorTime& a, const OperatorTime& b) {
  return {a.seconds + b.seconds, std::max(a.basis, b.basis), a.sustained || b.sustained};
}

OperatorResult gemm(OperatorLookup& lookup, const OperatorWords& shape, Clock clock) {
  const silicon::ProductShape product{type_of(shape, {"bf16", "fp8", "fp8_block", "nvfp4"}),
                                      shape.number("m"), shape.number("n"), shape.number("k")};
  return {lookup.product(product, clock), 2 * product.m * product.n * product.k, {}};
}

/// FLOPs of the pairs that a causal mask and a window leave, as MFU counts them.
double attention_flops(double heads, double sequence, double window, double both_heads) {
  const double keys = window > 0 ? std::min(window, sequence) : sequence;
  const double pairs = keys * sequence - 0.5 * keys * (keys - 1);
  return 2 * heads * pairs * both_heads;
}

OperatorResult attention(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  const double heads = shape.number("heads");
  const double kv_heads = shape.number("kv_heads", fmt::format("{}", heads));
  if (std::fmod(heads, kv_heads) != 0) {
    shape.refuse("kv_heads", fmt::format("{}", kv_heads), fmt::format("a divisor of the {} heads", heads));
  }
  const silicon::AttentionShape a{type_of(shape, {"bf16", "fp8"}),
                                  shape.number("batch", "1"),
                                  shape.number("sequence"),
                                  heads,
                                  kv_heads,
                                  shape.number("head", "128"),
                                  shape.number("window", "0", 0)};
  return {lookup.attention(a), attention_flops(a.batch * heads, a.sequence, a.window, 2 * a.head), {}};
}

OperatorResult latent_attention(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  const silicon::LatentAttentionShape a{shape.number("batch", "1"), shape.number("sequence"),
                                        shape.number("heads")};
  return {lookup.latent_attention(a), attention_flops(a.batch * a.heads, a.sequence, 0, 192 + 128), {}};
}

OperatorResult experts(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  const std::string distribution = shape.word("distribution", "uniform");
  constexpr std::array<std::pair<std::string_view, double>, 3> kSkews = {
      {{"uniform", 0}, {"power1.01", 1.01}, {"power1.2", 1.2}}};
  const auto* const skew = std::find_if(kSkews.begin(), kSkews.end(),
                                        [&](const auto& each) { return each.first == distribution; });
  if (skew == kSkews.end()) shape.refuse("distribution", distribution, "uniform, power1.01 or power1.2");
  const silicon::ExpertsShape e{type_of(shape, {"bf16", "fp8", "fp8_block", "nvfp4"}),
                                shape.number("tokens"),
                                shape.number("hidden"),
                                shape.number("ffn"),
                                shape.number("choices"),
                                shape.number("experts"),
                                shape.number("tp", "1"),
                                shape.number("ep", "1"),
                                skew->second};
  if (e.choices > e.experts) shape.refuse("choices", fmt::format("{}", e.choices), "at most experts");
  return {lookup.experts(e), 6 * e.tokens * e.choices / e.ep * e.hidden * e.ffn / e.tp, {}};
}

/// Beyond any machine: a rank is a whole number of GPUs.
double ranks_of(const OperatorWords& shape, double least) {
  constexpr double kMostRanks = 1 << 20;
  const double ranks = shape.number("ranks", "", least);
  if (ranks > kMostRanks || std::floor(ranks) != ranks) {
    shape.refuse("ranks", fmt::format("{}", ranks), fmt::format("a whole number up to {:.0f}", kMostRanks));
  }
  return ranks;
}

OperatorResult quantize(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  const double m = shape.number("m"), k = shape.number("k");
  const OperatorTime amax = lookup.cast({"amax", m, k}), cast = lookup.cast({"cast", m, k});
  return {sum(amax, cast), 0, {{"amax", amax}, {"cast", cast}}};
}

OperatorResult token_exchange(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  silicon::ExchangeShape e{"dispatch",
                           shape.word("table", "newest"),
                           shape.number("nodes", "1"),
                           ranks_of(shape, 1),
                           shape.number("hidden"),
                           shape.number("tokens"),
                           shape.number("choices"),
                           shape.number("experts"),
                           shape.number("processors", "20")};
  if (e.table == "newest") e.table.clear();
  if (std::fmod(e.ranks, e.nodes) != 0)
    shape.refuse("nodes", fmt::format("{}", e.nodes), "a divisor of ranks");
  const OperatorTime dispatch = lookup.exchange(e);
  e.part = "combine";
  const OperatorTime combine = lookup.exchange(e);
  return {sum(dispatch, combine), 0, {{"dispatch", dispatch}, {"combine", combine}}};
}

OperatorResult collective_of(OperatorLookup& lookup, const OperatorWords& shape, std::string operation) {
  return {lookup.collective({std::move(operation), ranks_of(shape, 2), shape.number("bytes")}), 0, {}};
}

/// A line of a table may name the operation itself; the command need not then.
template <const auto& Operation>
OperatorResult collective(OperatorLookup& lookup, const OperatorWords& shape, Clock) {
  return collective_of(lookup, shape, shape.word("operation", Operation));
}
constexpr std::string_view kAllReduce = "all_reduce", kAllGather = "all_gather",
                           kReduceScatter = "reduce_scatter", kAllToAll = "alltoall";

const std::vector<OperatorColumn> kProductColumns = {{"type", "bf16"}, {"m", ""}, {"n", ""}, {"k", ""}};
const std::vector<OperatorColumn> kCollectiveColumns = {{"ranks", ""}, {"bytes", ""}};

const std::array<OperatorKind, 10>& operator_table() {
  static const std::array<OperatorKind, 10> kKinds = {{
      {"gemm", "GEMM, m x k by k x n", kProductColumns, gemm},
      {"attention",
       "causal attention, forward",
       {{"type", "bf16"},
        {"batch", "1"},
        {"sequence", ""},
        {"heads", ""},
        {"kv_heads", "heads"},
        {"head", "128"},
        {"window", "0"}},
       attention},
      {"latent-attention",
       "MLA (DeepSeek), forward",
       {{"batch", "1"}, {"sequence", ""}, {"heads", ""}},
       latent_attention},
      {"experts",
       "grouped GEMMs of one rank's experts, forward",
       {{"type", "bf16"},
        {"tokens", ""},
        {"hidden", ""},
        {"ffn", ""},
        {"choices", ""},
        {"experts", ""},
        {"tp", "1"},
        {"ep", "1"},
        {"distribution", "uniform"}},
       experts},
      {"quantize", "16 to 8 bit: largest value, cast", {{"m", ""}, {"k", ""}}, quantize},
      {"token-exchange",
       "DeepEP's dispatch and combine",
       {{"table", "newest"},
        {"nodes", "1"},
        {"ranks", ""},
        {"hidden", ""},
        {"tokens", ""},
        {"choices", ""},
        {"experts", ""},
        {"processors", "20"}},
       token_exchange},
      {"all-reduce", "NCCL all-reduce", kCollectiveColumns, collective<kAllReduce>},
      {"all-gather", "NCCL all-gather, bytes of the result", kCollectiveColumns, collective<kAllGather>},
      {"reduce-scatter", "NCCL reduce-scatter, bytes of the input", kCollectiveColumns,
       collective<kReduceScatter>},
      {"all-to-all", "NCCL all-to-all, bytes of the buffer", kCollectiveColumns, collective<kAllToAll>},
  }};
  return kKinds;
}

}  // namespace

void OperatorWords::refuse(std::string_view column, std::string_view found, std::string_view expected) const {
  throw InputError(fmt::format("{}{}: found {}, expected {}", place_, column, printable(found), expected));
}

std::string OperatorWords::word(std::string_view column, std::string_view otherwise) const {
  const auto found = words_.find(column);
  if (found != words_.end() && !found->second.empty()) return found->second;
  if (otherwise.empty()) refuse(column, "nothing", "a value");
  return std::string(otherwise);
}

double OperatorWords::number(std::string_view column, std::string_view otherwise, double least) const {
  constexpr double kMost = 1e12;
  const std::string text = word(column, otherwise);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= kMost)
    return value;
  if (column == "bytes" && error == std::errc()) {
    const auto bytes = static_cast<double>(parse_bytes(text, fmt::format("{}{}", place_, column)).value);
    if (bytes >= least && bytes <= kMost) return bytes;
  }
  refuse(column, text, fmt::format("a number from {:.0f} to 1e12", least));
}

std::span<const OperatorKind> operator_kinds() {
  return operator_table();
}

const OperatorKind& operator_kind(std::string_view name) {
  const auto found = std::find_if(operator_table().begin(), operator_table().end(),
                                  [&](const OperatorKind& kind) { return kind.name == name; });
  if (found != operator_table().end()) return *found;
  std::vector<std::string_view> names;
  for (const OperatorKind& kind : operator_table()) names.push_back(kind.name);
  throw InputError(
      fmt::format("OPERATOR: found {}, expected one of {}", printable(name), fmt::join(names, ", ")));
}

}  // namespace plumbline
