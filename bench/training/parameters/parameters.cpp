#include "bench/training/parameters/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/training/parameters/tensor_names.hpp"
#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

class Builder {
 public:
  Builder(const RunConfig& config, const StagePart& part)
      : finetune_(config.finetune),
        model_(config.model),
        part_(part),
        shape_(config),
        names_(tensor_names(config.model)) {}

  ParameterLayout build() {
    stage_.frozen = finetune_.lora();
    stage_.adapter_scale = finetune_.scale();
    if (part_.has_embedding) add_vocabulary("embedding.weight", weight_of(names_.embedding), false);
    if (part_.first() && model_.position_rows() > 0) {
      Parameter& p = add_matrix("positions.weight", -1, model_.position_rows(), shape_.hidden, new_unit());
      p.replicated = true;
      p.slices = position_slices(p);
    }
    if (part_.first() && model_.embedding_norm) {
      add_norm("embedding_norm", -1, std::string(names_.embedding_norm));
    }
    for (std::int64_t i = 0; i < part_.layers; ++i) add_layer(part_.first_layer + i);
    for (std::int64_t i = 0; i < part_.modules; ++i) add_module(model_.layers + i);
    if (part_.last()) add_norm("final_norm", -1, std::string(names_.final_norm));
    if (part_.last() && model_.output_bias) add_output_bias();
    if (part_.has_output) {
      if (!model_.tied_embeddings) {
        add_vocabulary("output.weight", weight_of(names_.output), false);
      } else if (!part_.shares_embedding) {
        add_vocabulary("output.weight", weight_of(names_.embedding), true);
      }
    }
    if (part_.copies_embedding) add_vocabulary(kEmbeddingCopy, weight_of(names_.embedding), true);
    place_spread_experts();
    place_vectors(true);
    stage_.replicated_vectors = stage_.vectors;
    place_vectors(false);
    return std::move(stage_);
  }

 private:
  static std::string weight_of(std::string_view name) { return fmt::format("{}.weight", name); }

  int new_unit() {
    stage_.unit_elements.push_back(0);
    return static_cast<int>(stage_.unit_elements.size()) - 1;
  }

  Parameter& add(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols, Fill fill) {
    Parameter p;
    p.role = std::move(role);
    p.layer = layer;
    p.rows = rows;
    p.cols = cols;
    p.fill = fill;
    stage_.list.push_back(std::move(p));
    return stage_.list.back();
  }

  Parameter& add_matrix(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols,
                        int unit) {
    Parameter& p = add(std::move(role), layer, rows, cols, Fill::normal);
    std::int64_t& size = stage_.unit_elements[static_cast<std::size_t>(unit)];
    p.unit = unit;
    p.offset = size;
    size += p.elements();
    return p;
  }

  /// Behind all other units, since they have other copies.
  void place_spread_experts() {
    std::int64_t layer = -1;
    for (Parameter& p : stage_.list) {
      if (!p.spread) continue;
      if (p.layer != layer) ++stage_.spread_units;
      p.unit = p.layer == layer ? static_cast<int>(stage_.unit_elements.size()) - 1 : new_unit();
      p.offset = stage_.unit_elements.back();
      stage_.unit_elements.back() += p.elements();
      layer = p.layer;
    }
  }

  void place_vectors(bool replicated) {
    for (Parameter& p : stage_.list) {
      if (p.unit != kVector || p.replicated != replicated) continue;
      p.offset = stage_.vectors;
      stage_.vectors += p.elements();
    }
  }

  static Slice whole(std::string tensor, const Parameter& p) {
    Slice s;
    s.tensor = std::move(tensor);
    s.tensor_rows = s.rows = p.rows;
    s.tensor_cols = s.cols = p.cols;
    s.vector = p.rows == 1;
    return s;
  }

  void add_vocabulary(const std::string& role, const std::string& tensor, bool tied_copy) {
    Parameter& p = add_matrix(role, -1, shape_.vocab, shape_.hidden, new_unit());
    p.tied_copy = tied_copy;
    Slice s;
    s.tensor = tensor;
    s.tensor_rows = model_.vocab;
    s.tensor_cols = s.cols = shape_.hidden;
    s.row = std::min(model_.vocab, part_.shard * shape_.vocab);
    s.rows = std::min(model_.vocab, (part_.shard + 1) * shape_.vocab) - s.row;
    if (s.rows > 0) p.slices = {s};
  }

  /// One table, or two with the same number of rows.
  std::vector<Slice> position_slices(const Parameter& p) const {
    std::vector<Slice> slices = {whole(weight_of(names_.positions), p)};
    if (!model_.block_positions) return slices;
    slices.front().tensor_rows = slices.front().rows = model_.max_positions;
    slices.push_back(slices.front());
    slices.back().tensor = weight_of(names_.block_positions);
    slices.back().local_row = model_.max_positions;
    return slices;
  }

  /// Bias of this rank's part of the vocabulary.
  void add_output_bias() {
    Parameter& p = add("output.bias", -1, 1, shape_.vocab, Fill::zeros);
    Slice s;
    s.tensor = fmt::format("{}.bias", names_.output);
    s.vector = true;
    s.tensor_rows = s.rows = 1;
    s.tensor_cols = model_.vocab;
    s.col = std::min(model_.vocab, part_.shard * shape_.vocab);
    s.cols = std::min(model_.vocab, (part_.shard + 1) * shape_.vocab) - s.col;
    if (s.cols > 0) p.slices = {s};
  }

  /// A vector that multiplies a norm's result.
  void add_norm_weight(const std::string& role, std::int64_t layer, std::int64_t width,
                       const std::string& tensor) {
    Parameter& w = add(role, layer, 1, width, Fill::ones);
    w.replicated = true;
    w.slices = {whole(tensor, w)};
    w.slices.front().less_one = model_.norm_less_one;
  }

  void add_norm(const std::string& role, std::int64_t layer, const std::string& name) {
    add_norm_weight(role + ".weight", layer, shape_.hidden, weight_of(name));
    if (model_.norm != Norm::layer) return;
    Parameter& b = add(role + ".bias", layer, 1, shape_.hidden, Fill::zeros);
    b.replicated = true;
    b.slices = {whole(name + ".bias", b)};
  }

  /// Output features [first, first + count) of a linear layer, as `local_row`… of the local weight or bias.
  Slice output_rows(const std::string& tensor, std::int64_t features, std::int64_t inputs, std::int64_t first,
                    std::int64_t count, std::int64_t local_row) const {
    Slice s;
    s.tensor = tensor;
    s.transposed = names_.transposed;
    s.tensor_rows = features;
    s.tensor_cols = s.cols = inputs;
    s.row = first;
    s.rows = count;
    s.local_row = local_row;
    return s;
  }

  /// The same range of a bias: a vector's features are its columns, so the local place moves along the row.
  static void append_bias(Parameter& bias, const std::string& tensor, const Slice& weight) {
    Slice s;
    s.tensor = tensor;
    s.vector = true;
    s.tensor_rows = s.rows = 1;
    s.tensor_cols = weight.tensor_rows;
    s.col = weight.row;
    s.cols = weight.rows;
    s.local_col = weight.local_row;
    bias.slices.push_back(s);
  }

  Slice input_cols(const std::string& tensor, std::int64_t features, std::int64_t inputs, std::int64_t first,
                   std::int64_t count) const {
    Slice s;
    s.tensor = tensor;
    s.transposed = names_.transposed;
    s.tensor_rows = s.rows = features;
    s.tensor_cols = inputs;
    s.col = first;
    s.cols = count;
    return s;
  }

  /// A head of queries or keys. If either half of it rotates by a position of its own, the quarters are
  /// stored in the order 0, 2, 1, 3, in which pairs are half a head apart. Scores are the same.
  void append_head(std::vector<Slice>& slices, const Slice& head) const {
    if (!model_.block_positions || model_.positions != Positions::rotary) return slices.push_back(head);
    const std::int64_t quarter = head.rows / 4;
    std::int64_t local = head.local_row;
    for (const std::int64_t from : {0, 2, 1, 3}) {
      Slice part = head;
      part.row += from * quarter;
      part.rows = quarter;
      part.local_row = local;
      local += quarter;
      slices.push_back(part);
    }
  }

  /// The rank's rows of queries, keys and values: whole blocks of the tensors, or head by head.
  std::vector<Slice> qkv_slices(std::int64_t layer) const {
    const std::int64_t d = model_.head_dim;
    const std::int64_t group = model_.heads / model_.kv_heads;
    const std::int64_t all_query = model_.heads * d;
    const std::int64_t all_key = model_.kv_heads * d;
    const std::int64_t first_query = part_.tensor_rank * shape_.query;
    // With fewer KV heads than tensor ranks, neighbouring ranks hold the same head.
    const std::int64_t first_key = model_.kv_heads >= part_.tensor_size
                                       ? part_.tensor_rank * shape_.key
                                       : part_.tensor_rank * model_.kv_heads / part_.tensor_size * d;
    const std::int64_t key_row = shape_.query;
    const std::int64_t value_row = shape_.query + shape_.key;
    const std::string tensor = name_in(layer, names_.query);
    const std::int64_t features = all_query + 2 * all_key;
    switch (names_.fused) {
      case FusedQkv::stacked:
        return {output_rows(tensor, features, shape_.hidden, first_query, shape_.query, 0),
                output_rows(tensor, features, shape_.hidden, all_query + first_key, shape_.key, key_row),
                output_rows(tensor, features, shape_.hidden, all_query + all_key + first_key, shape_.key,
                            value_row)};
      case FusedQkv::per_group: {
        std::vector<Slice> slices;
        slices.reserve(static_cast<std::size_t>((shape_.query + 2 * shape_.key) / d));
        for (std::int64_t local = 0; local < shape_.query; local += d) {
          const std::int64_t head = (first_query + local) / d;
          const std::int64_t row = (head / group * (group + 2) + head % group) * d;
          append_head(slices, output_rows(tensor, features, shape_.hidden, row, d, local));
        }
        for (const std::int64_t part : {0, 1}) {
          for (std::int64_t local = 0; local < shape_.key; local += d) {
            const std::int64_t row = ((first_key + local) / d * (group + 2) + group + part) * d;
            const Slice head = output_rows(tensor, features, shape_.hidden, row, d,
                                           (part == 0 ? key_row : value_row) + local);
            if (part == 0) append_head(slices, head);
            if (part == 1) slices.push_back(head);
          }
        }
        return slices;
      }
      case FusedQkv::none:
        break;
    }
    return {
        output_rows(tensor, all_query, shape_.hidden, first_query, shape_.query, 0),
        output_rows(name_in(layer, names_.key), all_key, shape_.hidden, first_key, shape_.key, key_row),
        output_rows(name_in(layer, names_.value), all_key, shape_.hidden, first_key, shape_.key, value_row)};
  }

  /// With a gate its rows, then those of the gated projection.
  std::vector<Slice> fc1_slices(std::int64_t layer) const {
    const bool gated = is_gated(model_.activation);
    const bool fused = gated && names_.up.empty();
    const std::string tensor = name_in(layer, names_.fc1);
    const std::int64_t width = model_.dense_ffn();
    const std::int64_t features = fused ? 2 * width : width;
    const std::int64_t first = part_.tensor_rank * shape_.ffn;
    const std::int64_t gate = fused && names_.up_first ? width : 0;
    std::vector<Slice> slices = {output_rows(tensor, features, shape_.hidden, gate + first, shape_.ffn, 0)};
    if (!gated) return slices;
    slices.push_back(output_rows(fused ? tensor : name_in(layer, names_.up), features, shape_.hidden,
                                 fused ? width - gate + first : first, shape_.ffn, shape_.ffn));
    return slices;
  }

  std::string name_in(std::int64_t layer, std::string_view name) const {
    return fmt::format("{}.{}.{}.weight", names_.layers, layer, name);
  }

  std::string name_of_expert(std::int64_t layer, std::int64_t expert, std::string_view name) const {
    return name_in(layer, fmt::format("{}.{}.{}", names_.experts, expert, name));
  }

  /// The router whole; of every expert the part that a feed-forward layer has on this rank, one below the
  /// other.
  void add_experts(std::int64_t layer, int unit) {
    const std::int64_t experts = model_.mixture.experts;
    const std::int64_t h = shape_.hidden;
    const std::int64_t first = part_.expert_slice * shape_.expert_ffn;
    Parameter& router = add_matrix("router.weight", layer, experts, h, unit);
    router.replicated = true;
    router.slices = {whole(name_in(layer, names_.router), router)};
    router.slices.front().vector = false;  // of one expert, too
    std::vector<Slice> fc1;
    std::vector<Slice> fc2;
    fc1.reserve(static_cast<std::size_t>(2 * shape_.local));
    fc2.reserve(static_cast<std::size_t>(shape_.local));
    for (std::int64_t local = 0; local < shape_.local; ++local) {
      const std::int64_t expert = part_.expert_rank * shape_.local + local;
      const std::int64_t row = local * shape_.expert_fc1;
      fc1.push_back(output_rows(name_of_expert(layer, expert, names_.expert_gate), model_.ffn, h, first,
                                shape_.expert_ffn, row));
      fc1.push_back(output_rows(name_of_expert(layer, expert, names_.expert_up), model_.ffn, h, first,
                                shape_.expert_ffn, row + shape_.expert_ffn));
      fc2.push_back(input_cols(name_of_expert(layer, expert, names_.expert_down), h, model_.ffn, first,
                               shape_.expert_ffn));
      fc2.back().local_row = local * h;
    }
    add_expert_matrix("fc1.weight", layer, shape_.local * shape_.expert_fc1, h, unit, std::move(fc1));
    add_expert_matrix("fc2.weight", layer, shape_.local * h, shape_.expert_ffn, unit, std::move(fc2));
    if (model_.mixture.expert_bias) add_expert_bias(layer);
    if (shape_.shared > 0) add_shared_expert(layer, unit);
  }

  /// In the layer's unit, or, if experts are spread, in one that is placed later.
  void add_expert_matrix(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols, int unit,
                         std::vector<Slice> slices) {
    const bool spread = shape_.spread;
    Parameter& p = spread ? add(std::move(role), layer, rows, cols, Fill::normal)
                          : add_matrix(std::move(role), layer, rows, cols, unit);
    p.spread = spread;
    p.slices = std::move(slices);
  }

  void add_expert_bias(std::int64_t layer) {
    Parameter& bias = add("router.bias", layer, 1, model_.mixture.experts, Fill::zeros);
    bias.unit = kUntrained;
    bias.replicated = true;
    bias.offset = stage_.untrained;
    bias.slices = {whole(fmt::format("{}.{}.{}", names_.layers, layer, names_.expert_bias), bias)};
    bias.slices.front().vector = !names_.expert_bias_row;
    stage_.untrained += bias.elements();
  }

  void add_shared_expert(std::int64_t layer, int unit) {
    const std::int64_t h = shape_.hidden;
    const std::int64_t all = model_.mixture.shared;
    const std::int64_t first = part_.tensor_rank * shape_.shared;
    const auto name = [&](std::string_view tensor) {
      return name_in(layer, fmt::format("{}.{}", names_.shared, tensor));
    };
    if (model_.mixture.shared_gated) {
      Parameter& gate = add_matrix("shared_gate.weight", layer, 1, h, unit);
      gate.replicated = true;
      gate.slices = {whole(name_in(layer, names_.shared_gate), gate)};
      gate.slices.front().vector = false;
    }
    add_matrix("shared_fc1.weight", layer, 2 * shape_.shared, h, unit).slices = {
        output_rows(name(names_.expert_gate), all, h, first, shape_.shared, 0),
        output_rows(name(names_.expert_up), all, h, first, shape_.shared, shape_.shared)};
    add_matrix("shared_fc2.weight", layer, h, shape_.shared, unit).slices = {
        input_cols(name(names_.expert_down), h, all, first, shape_.shared)};
  }

  void add_layer_norms(std::int64_t layer) {
    const bool apart = model_.block == Block::parallel && !names_.parallel_norm1.empty();
    const auto name = [&](std::string_view n) { return fmt::format("{}.{}.{}", names_.layers, layer, n); };
    if (model_.predicted.norms != NormPlaces::after) {
      add_norm("norm1", layer, name(apart ? names_.parallel_norm1 : names_.norm1));
      if (model_.layer_norms() > 1)
        add_norm("norm2", layer, name(apart ? names_.parallel_norm2 : names_.norm2));
    }
    if (model_.predicted.norms != NormPlaces::before) {
      add_norm("attention_result_norm", layer, name(names_.attention_result_norm));
      add_norm("mlp_result_norm", layer, name(names_.mlp_result_norm));
    }
    if (model_.latent) {
      add_norm_weight("query_rank_norm.weight", layer, shape_.query_rank,
                      name_in(layer, names_.query_down_norm));
      add_norm_weight("kv_rank_norm.weight", layer, shape_.kv_rank, name_in(layer, names_.kv_down_norm));
    }
    if (!model_.qk_norm) return;
    const bool width = model_.predicted.query_norm == QueryNorm::width;
    add_norm_weight("query_norm.weight", layer, width ? shape_.query : model_.head_dim,
                    name_in(layer, names_.query_norm));
    add_norm_weight("key_norm.weight", layer, width ? shape_.key : model_.head_dim,
                    name_in(layer, names_.key_norm));
  }

  /// Parameters of latent attention. Query heads are reordered: rotated elements come first.
  void add_latent_attention(std::int64_t layer, int unit) {
    const LatentAttention& latent = model_.latent;
    const std::int64_t h = shape_.hidden;
    const std::int64_t heads = model_.heads / part_.tensor_size;
    const std::int64_t d = model_.head_dim;
    const std::int64_t both = latent.nope_dim + latent.value_dim;
    const std::string query_up = name_in(layer, names_.query_up);
    const std::string kv_up = name_in(layer, names_.kv_up);
    const std::int64_t kv_down = latent.kv_rank + latent.rope_dim;
    Parameter& down = add_matrix("down.weight", layer, shape_.compressed, h, unit);
    down.replicated = true;
    down.slices = {
        output_rows(name_in(layer, names_.query_down), latent.query_rank, h, 0, latent.query_rank, 0),
        output_rows(name_in(layer, names_.kv_down), kv_down, h, 0, kv_down, latent.query_rank)};
    std::vector<Slice> queries;
    std::vector<Slice> keys_values;  // of files head by head, here all keys first
    queries.reserve(static_cast<std::size_t>(2 * heads));
    keys_values.reserve(static_cast<std::size_t>(2 * heads));
    for (std::int64_t local = 0; local < heads; ++local) {
      const std::int64_t head = part_.tensor_rank * heads + local;
      const auto query_rows = [&](std::int64_t first, std::int64_t count, std::int64_t at) {
        queries.push_back(output_rows(query_up, model_.heads * d, latent.query_rank, head * d + first, count,
                                      local * d + at));
      };
      query_rows(latent.nope_dim, latent.rope_dim, 0);
      query_rows(0, latent.nope_dim, latent.rope_dim);
      const auto key_value_rows = [&](std::int64_t first, std::int64_t count, std::int64_t at) {
        keys_values.push_back(output_rows(kv_up, model_.heads * both, latent.kv_rank, head * both + first,
                                          count, at + local * count));
      };
      key_value_rows(0, latent.nope_dim, 0);
      key_value_rows(latent.nope_dim, latent.value_dim, shape_.own_keys);
    }
    add_matrix("queries.weight", layer, shape_.query, latent.query_rank, unit).slices = std::move(queries);
    add_matrix("keys_values.weight", layer, shape_.own_keys + shape_.value, latent.kv_rank, unit).slices =
        std::move(keys_values);
  }

  void add_layer(std::int64_t layer) {
    const std::int64_t h = shape_.hidden;
    const std::int64_t all_heads = model_.heads * model_.value_dim();
    const std::vector<Slice> qkv = model_.latent ? std::vector<Slice>() : qkv_slices(layer);
    const std::vector<Slice> fc1 = fc1_slices(layer);
    const Slice proj = input_cols(name_in(layer, names_.projection), h, all_heads,
                                  part_.tensor_rank * shape_.attended, shape_.attended);
    const Slice fc2 = input_cols(name_in(layer, names_.fc2), h, model_.dense_ffn(),
                                 part_.tensor_rank * shape_.ffn, shape_.ffn);
    add_layer_norms(layer);
    const auto bias_of = [](std::string weight) { return weight.replace(weight.size() - 6, 6, "bias"); };
    if (model_.qkv_bias) add_split_bias("qkv.bias", layer, shape_.qkv, qkv, bias_of);
    if (model_.has_projection_bias()) add_whole_bias("proj.bias", layer, bias_of(proj.tensor));
    if (model_.has_feed_forward_bias() && !model_.has_experts(layer)) {
      add_split_bias("fc1.bias", layer, shape_.fc1, fc1, bias_of);
      add_whole_bias("fc2.bias", layer, bias_of(fc2.tensor));
    }
    const int unit = new_unit();
    if (model_.latent) {
      add_latent_attention(layer, unit);
    } else {
      add_matrix("qkv.weight", layer, shape_.qkv, h, unit).slices = qkv;
    }
    add_matrix("proj.weight", layer, h, shape_.attended, unit).slices = {proj};
    if (model_.has_experts(layer)) return add_experts(layer, unit);
    add_matrix("fc1.weight", layer, shape_.fc1, h, unit).slices = fc1;
    add_matrix("fc2.weight", layer, h, shape_.ffn, unit).slices = {fc2};
    if (finetune_.lora()) add_adapters(layer, qkv, proj, fc1, fc2);
  }

  /// Adapters of the layer's linear layers, under PEFT's names. Tensor parallelism shards them as PEFT does
  /// for Megatron's layers (peft/tuners/lora/tp_layer.py): A of a column-parallel layer and B of a
  /// row-parallel one are replicated.
  void add_adapters(std::int64_t layer, const std::vector<Slice>& qkv, const Slice& proj,
                    const std::vector<Slice>& fc1, const Slice& fc2) {
    const int unit = new_unit();
    stage_.adapter_units.push_back(unit);
    add_column_adapter("qkv", layer, unit, shape_.qkv, qkv);
    if (finetune_.lora_targets == LoraTargets::qkv) return;
    add_row_adapter("proj", layer, unit, shape_.attended, proj);
    if (finetune_.lora_targets == LoraTargets::attention) return;
    add_column_adapter("fc1", layer, unit, shape_.fc1, fc1);
    add_row_adapter("fc2", layer, unit, shape_.ffn, fc2);
  }

  static std::string adapter_name(const std::string& weight, const char* factor) {
    return fmt::format("base_model.model.{}.lora_{}.weight", weight.substr(0, weight.rfind('.')), factor);
  }

  /// A slice of A or B with the place of one of W; PEFT never stores them transposed.
  static Slice adapter_slice(const Slice& weight, const char* factor) {
    Slice s = weight;
    s.tensor = adapter_name(weight.tensor, factor);
    s.transposed = false;
    return s;
  }

  Parameter& add_factor(const char* of, const char* factor, std::int64_t layer, int unit, std::int64_t rows,
                        std::int64_t cols) {
    Parameter& p = add_matrix(fmt::format("{}.lora_{}", of, factor), layer, rows, cols, unit);
    p.fill = factor[0] == 'A' ? Fill::uniform : Fill::zeros;
    return p;
  }

  /// One A for all tensors that make up the layer; each file tensor has it.
  void add_column_adapter(const char* of, std::int64_t layer, int unit, std::int64_t width,
                          const std::vector<Slice>& weights) {
    const std::int64_t r = finetune_.lora_rank;
    Parameter& a = add_factor(of, "A", layer, unit, r, shape_.hidden);
    a.replicated = true;
    for (const Slice& weight : weights) {
      Slice s = whole(adapter_name(weight.tensor, "A"), a);
      s.vector = false;
      const auto same = [&](const Slice& other) { return other.tensor == s.tensor; };
      if (std::none_of(a.slices.begin(), a.slices.end(), same)) a.slices.push_back(std::move(s));
    }
    Parameter& b = add_factor(of, "B", layer, unit, width, r);
    for (const Slice& weight : weights) {
      Slice s = adapter_slice(weight, "B");
      s.tensor_cols = s.cols = r;
      b.slices.push_back(std::move(s));
    }
  }

  void add_row_adapter(const char* of, std::int64_t layer, int unit, std::int64_t inputs,
                       const Slice& weight) {
    const std::int64_t r = finetune_.lora_rank;
    Slice s = adapter_slice(weight, "A");
    s.tensor_rows = s.rows = r;
    add_factor(of, "A", layer, unit, r, inputs).slices = {s};
    Parameter& b = add_factor(of, "B", layer, unit, shape_.hidden, r);
    b.replicated = true;
    b.slices = {whole(adapter_name(weight.tensor, "B"), b)};
    b.slices.front().vector = false;
  }

  /// A layer after the last, with the matrix that joins its two inputs, in its unit, and a norm after it.
  /// Files use DeepSeek-V3's names.
  void add_module(std::int64_t layer) {
    const std::int64_t h = shape_.hidden;
    const auto name = [&](std::string_view n) { return fmt::format("{}.{}.{}", names_.layers, layer, n); };
    add_norm("embedding_side_norm", layer, name("enorm"));
    add_norm("hidden_side_norm", layer, name("hnorm"));
    add_layer(layer);
    const std::int64_t rows = h / part_.tensor_size;
    add_matrix("join.weight", layer, rows, 2 * h, static_cast<int>(stage_.unit_elements.size()) - 1)
        .slices = {output_rows(weight_of(name("eh_proj")), h, 2 * h, part_.tensor_rank * rows, rows, 0)};
    add_norm("module_norm", layer, name("shared_head.norm"));
  }

  template <class BiasOf>
  void add_split_bias(const std::string& role, std::int64_t layer, std::int64_t width,
                      const std::vector<Slice>& weights, const BiasOf& bias_of) {
    Parameter& p = add(role, layer, 1, width, Fill::zeros);
    for (const Slice& weight : weights) append_bias(p, bias_of(weight.tensor), weight);
  }

  void add_whole_bias(const std::string& role, std::int64_t layer, const std::string& tensor) {
    Parameter& p = add(role, layer, 1, shape_.hidden, Fill::zeros);
    p.replicated = true;
    p.slices = {whole(tensor, p)};
  }

  const FinetuneConfig& finetune_;
  const ModelConfig& model_;
  const StagePart& part_;
  LayerWidths shape_;
  const TensorNames& names_;
  ParameterLayout stage_;
};

}  // namespace

const Parameter& ParameterLayout::find(std::string_view role, std::int64_t layer) const {
  for (const Parameter& parameter : list) {
    if (parameter.layer == layer && parameter.role == role) return parameter;
  }
  throw Error(fmt::format("no parameter {} of layer {} in this stage", role, layer));
}

bool ParameterLayout::trains(int unit) const {
  if (!frozen) return unit != kUntrained;
  return std::find(adapter_units.begin(), adapter_units.end(), unit) != adapter_units.end();
}

ParameterLayout stage_parameters(const RunConfig& config, const StagePart& part) {
  return Builder(config, part).build();
}

}  // namespace plumbline::training
