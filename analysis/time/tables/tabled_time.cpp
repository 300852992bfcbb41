#include "analysis/time/tables/tabled_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/time/tables/working_sets.hpp"

namespace plumbline {
namespace {

/// Pairs of tokens for which one head computes scores: 128 queries at a time. Keys range from the first one
/// that the first query sees, rounded down to a multiple of 64. They end with the last query's own, the
/// prefix's last, or the last that exists (kernels/cpu/README.md).
double computed_pairs(const AttentionCall& call, std::int64_t window) {
  constexpr std::int64_t kQueries = 128;
  constexpr std::int64_t kKeys = 64;
  double pairs = 0;
  for (std::int64_t first = 0; first < call.queries; first += kQueries) {
    const std::int64_t last = std::min(first + kQueries, call.queries);
    const std::int64_t begin =
        window == 0 ? 0 : std::max<std::int64_t>(0, call.past + first + 1 - window) / kKeys * kKeys;
    std::int64_t end = std::max(call.past + last, call.prefix);
    if (call.keys > 0) end = std::min(end, call.keys);
    if (end > begin) pairs += static_cast<double>((last - first) * (end - begin));
  }
  return pairs;
}

/// Pairs of a sequence without window or prefix.
double causal_pairs(std::int64_t tokens) {
  AttentionCall call;
  call.queries = tokens;
  return computed_pairs(call, 0);
}

/// The last query that an attention call has keys for is as far into the keys as this.
std::int64_t sequence_of(const AttentionCall& call) {
  return (call.keys > 0 ? std::min(call.past, call.keys) : call.past) + call.queries;
}

/// Computed pairs as a share of the causal pairs that profiles measure: for a window, a prefix, queries of a
/// sequence's end only, or queries after the keys.
double share_of_causal(const AttentionCall& call) {
  const std::int64_t keys = sequence_of(call);
  const std::int64_t window = call.window >= call.past + call.queries ? 0 : call.window;
  if (window == 0 && call.prefix == 0 && call.past == 0) return 1;
  return computed_pairs(call, window) / causal_pairs(keys);
}

/// The CPU computes with vectors of sixteen (kernels/cpu/README.md); the last one of a row takes as long when
/// it is not full.
constexpr std::int64_t kVector = 16;
std::int64_t whole_vectors(std::int64_t elements) {
  return (elements + kVector - 1) / kVector * kVector;
}

/// The time under `key` in a list of tables by working set, each weighted by its share; negative when no
/// table has it. A size missing in a table takes as long as in the next larger one, else in the next smaller.
/// `tables` chooses the map, `read` asks one table.
template <class Tables, class Read>
double at_working_set(const std::vector<OperatorTimes>& list, const CacheLevels& levels,
                      const std::string& key, const Reuse& reuse, Tables&& tables, Read&& read) {
  const std::vector<double> shares = table_shares(list, levels, reuse);
  double known = -1;
  double waiting = 0;  // the share of larger working sets that have no time
  double sum = 0;
  for (std::size_t i = list.size(); i-- > 0;) {
    const auto found = tables(list[i]).find(key);
    if (found != tables(list[i]).end()) {
      known = read(found->second).value;
      sum += std::exchange(waiting, 0) * known;
    }
    if (known < 0) {
      waiting += shares[i];
    } else {
      sum += shares[i] * known;
    }
  }
  return known < 0 ? known : sum;
}

/// The same, mixed between an idle and a busy machine.
template <class Tables, class Read>
double measured_time(const HardwareProfile& hardware, const Load& load, const std::string& key,
                     const Reuse& reuse, Tables&& tables, Read&& read) {
  const double quiet = at_working_set(hardware.alone, hardware.alone_levels, key, reuse, tables, read);
  const double crowded = at_working_set(hardware.busy, hardware.busy_levels, key, reuse, tables, read);
  if (quiet < 0) return crowded;
  if (crowded < 0) return quiet;
  return (1 - load.busy) * quiet + load.busy * crowded;
}

OperatorCall without_dropout(OperatorCall call) {
  call.get<AttentionCall>().dropout = false;
  return call;
}

/// A product of operands of the storage type.
OperatorCall without_fp8(OperatorCall call) {
  call.get<GemmCall>().fp8 = false;
  return call;
}

/// Stand-ins for operators that an old profile may lack. Each is the most similar
/// pass of a cross-entropy, with the ratio of the elements read.
struct StandIn {
  std::string_view name;
  const char* other;
  std::int64_t times;
};
constexpr StandIn kStandIns[] = {{"greedy_choice", "cross_entropy_sums", 2},
                                 {"distillation_sums", "cross_entropy_sums", 3},
                                 {"distillation_divergence", "cross_entropy_sums", 2},
                                 {"distillation_gradient", "cross_entropy_gradient", 2},
                                 {"softmax", "cross_entropy_sums", 3},
                                 {"divergence_terms", "cross_entropy_sums", 3},
                                 {"log_softmax_backward", "cross_entropy_gradient", 2}};

/// Operators that an old profile may lack: dropout on the stream, quantization, scaled embeddings, heads'
/// norms, MoE.
bool may_be_missing(const OperatorCall& call) {
  const std::string_view name = call.name();
  return name.substr(0, 8) == "dropout_" || name.substr(0, 4) == "fp8_" || name == "scale" ||
         name == "scale_columns" || name == "row_products" || name == "remove_row_parts" ||
         name == "attention_merge" || name.substr(0, 10) == "head_norm_" || name == "route" ||
         name == "arrange" || name == "route_backward" || name == "scale_rows" ||
         name.substr(0, 8) == "sigmoid_" || name == "combine_rows" || name == "join_heads" ||
         name == "split_heads";
}

/// An addition of two tensors that moves as many bytes. Elements of one byte have no storage type: fp32 is
/// used.
OperatorCall as_addition(OperatorCall call) {
  auto& stream = call.get<StreamCall>();
  const double bytes = static_cast<double>(stream.elements) * stream.bytes_per_element;
  stream.name = "add";
  if (size_of(call.type) == 1) call.type = DType::fp32;
  stream.bytes_per_element = 3 * static_cast<double>(size_of(call.type));
  stream.elements = std::max<std::int64_t>(1, std::llround(bytes / stream.bytes_per_element));
  return call;
}

/// The table entry of a product: in FP8 all three have the form of a forward.
struct GemmEntry {
  std::string key;
  std::int64_t tokens, out, in;
};
GemmEntry gemm_entry(const GemmCall& call, DType type) {
  if (!call.fp8) {
    return {fmt::format("{}.{}", name_of(call.pass), name_of(type)), call.tokens, call.out, call.in};
  }
  const std::string key = "forward.fp8";
  if (call.pass == GemmPass::forward) return {key, call.tokens, call.out, call.in};
  if (call.pass == GemmPass::input_gradient) return {key, call.tokens, call.in, call.out};
  return {key, call.out, call.in, call.tokens};
}

/// Elements of a row that take as long as the call's. Rope processes the halves of a head; heads shorter than
/// a vector are in the tables.
std::int64_t in_whole_vectors(const StreamCall& call) {
  const bool halves = std::string_view(call.name).starts_with("rope");
  if (!halves) return whole_vectors(call.width);
  return call.width < 2 * kVector ? std::min(call.width, kVector) : 2 * whole_vectors((call.width + 1) / 2);
}

/// One query of every head over a KV cache; negative without a table. A full cache of a window is as long as
/// the window.
double cached_attention(const AttentionCall& call, DType type, const HardwareProfile& hardware,
                        const Load& load) {
  const std::int64_t all = call.past + call.queries;
  const auto keys = static_cast<double>(call.window > 0 ? std::min(all, call.window) : all);
  const double per_head = measured_time(
      hardware, load, fmt::format("cached.{}", name_of(type)), load.operands,
      [](const OperatorTimes& t) -> const auto& { return t.attention; },
      [&](const Grid& grid) {
        const double group = grid.z.empty() ? 1 : std::min(static_cast<double>(call.group), grid.z.back());
        return grid.at(keys, static_cast<double>(whole_vectors(call.head_dim)), group);
      });
  return per_head * static_cast<double>(call.heads);
}

/// Attention that keeps its probabilities. Its blocks are those of the fused one, whose backward computes
/// the scores again: five products, not four. Square tensors leave the cache: elements written and read count
/// as copies.
double unfused_attention(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  const auto& attention = *call.as<AttentionCall>();
  if (hardware.accelerator() != nullptr) return -1;  // it computes whole squares
  OperatorCall fused = call;
  fused.get<AttentionCall>().unfused = false;
  if (attention.backward) fused.get<AttentionCall>().dropout = false;
  const double products = tabled_time(fused, hardware, load) * (attention.backward ? 0.8 : 1);
  const double copies = (attention.backward ? 1.5 : 1) + (attention.dropout ? 1 : 0);
  OperatorCall copy = call;
  const double pairs = pairs_of(attention) * static_cast<double>(attention.heads);
  copy.work = StreamCall{.name = "copy",
                         .elements = std::max<std::int64_t>(1, std::llround(copies * pairs)),
                         .bytes_per_element = 2 * static_cast<double>(size_of(call.type))};
  return products < 0 ? products : products + tabled_time(copy, hardware, load);
}

}  // namespace

double tabled_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load) {
  // Measured are fp32 and bf16. A CPU multiplies fp16 in fp32, all else moves and computes as much as bf16.
  if (call.type == DType::fp16) {
    OperatorCall alike = call;
    const bool widened = call.as<GemmCall>() != nullptr && hardware.processors() > 0;
    alike.type = widened ? DType::fp32 : DType::bf16;
    return tabled_time(alike, hardware, load);
  }
  if (const auto* gemm = call.as<GemmCall>()) {
    const GemmEntry entry = gemm_entry(*gemm, call.type);
    const Reuse& reuse = gemm->pass == GemmPass::weight_gradient  ? load.gradients
                         : gemm->pass == GemmPass::input_gradient ? load.weights_in_backward
                                                                  : load.operands;
    const double measured = measured_time(
        hardware, load, entry.key, reuse, [](const OperatorTimes& t) -> const auto& { return t.gemm; },
        [&](const Grid& grid) {
          return grid.at(static_cast<double>(entry.tokens), static_cast<double>(whole_vectors(entry.out)),
                         static_cast<double>(whole_vectors(entry.in)));
        });
    return measured < 0 && gemm->fp8 ? tabled_time(without_fp8(call), hardware, load) : measured;
  }
  if (const auto* attention = call.as<AttentionCall>()) {
    if (attention->unfused) return unfused_attention(call, hardware, load);
    if (attention->cached) {
      const double measured = cached_attention(*attention, call.type, hardware, load);
      if (measured >= 0) return measured;
    }
    const char* const pass = attention->backward ? "backward" : "forward";
    const std::string key =
        fmt::format("{}{}.{}", pass, attention->dropout ? "_dropout" : "", name_of(call.type));
    const double per_head = measured_time(
        hardware, load, key, load.operands, [](const OperatorTimes& t) -> const auto& { return t.attention; },
        [&](const Grid& grid) {
          // The time of one query head: more of them at a key/value head do not make each of them longer.
          const double group =
              grid.z.empty() ? 1 : std::min(static_cast<double>(attention->group), grid.z.back());
          // Beyond the table work grows as the pairs of tokens do.
          const std::int64_t keys = sequence_of(*attention);
          const std::int64_t longest =
              grid.empty() ? keys : std::min(keys, static_cast<std::int64_t>(grid.x.back()));
          const double beyond = causal_pairs(keys) / causal_pairs(longest);
          const std::int64_t width =
              attention->head_dim < kVector ? attention->head_dim : whole_vectors(attention->head_dim);
          return grid.at(static_cast<double>(longest), static_cast<double>(width), group) * beyond;
        });
    if (per_head < 0 && attention->dropout) return tabled_time(without_dropout(call), hardware, load);
    return per_head * static_cast<double>(attention->heads) * share_of_causal(*attention);
  }
  const auto& stream = *call.as<StreamCall>();
  const std::string key = fmt::format("{}.{}", stream.name, is_fp8(call.type) ? "fp8" : name_of(call.type));
  const double by_row = measured_time(
      hardware, load, key, load.operands, [](const OperatorTimes& t) -> const auto& { return t.by_row; },
      [&](const Grid& grid) {
        // Longer rows do not make each element take longer.
        const double widest = grid.y.empty() ? 1 : grid.y.back();
        const auto elements = static_cast<double>(stream.elements);
        if (stream.width <= 0) return grid.at(elements, widest, 1);
        const std::int64_t row = in_whole_vectors(stream);
        return grid.at(elements * static_cast<double>(row) / static_cast<double>(stream.width),
                       std::min(static_cast<double>(row), widest), 1);
      });
  if (by_row >= 0) return by_row;
  const double measured = measured_time(
      hardware, load, key, load.operands,
      [](const OperatorTimes& t) -> const auto& { return t.memory_bound; },
      [&](const Curve& curve) { return curve.at(static_cast<double>(stream.elements)); });
  if (measured >= 0) return measured;
  const auto* stand_in = std::find_if(std::begin(kStandIns), std::end(kStandIns),
                                      [&](const StandIn& known) { return known.name == stream.name; });
  if (stand_in != std::end(kStandIns)) {
    OperatorCall other = call;
    other.get<StreamCall>().name = stand_in->other;
    other.get<StreamCall>().elements *= stand_in->times;
    return tabled_time(other, hardware, load);
  }
  return may_be_missing(call) ? tabled_time(as_addition(call), hardware, load) : measured;
}

}  // namespace plumbline
