#include "bench/training/parameters/layout_builder.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plumbline::training {
namespace {

/// A head of queries or keys. If either half of it rotates by a position of its own, the quarters are
/// stored in the order 0, 2, 1, 3, in which pairs are half a head apart. Scores are the same.
void append_head(const LayoutBuilder& b, std::vector<Slice>& slices, const Slice& head) {
  if (!b.model.position.of_blocks || b.model.position.kind != Positions::rotary)
    return slices.push_back(head);
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

/// With a gate its rows, then those of the gated projection.
std::vector<Slice> fc1_slices(const LayoutBuilder& b, std::int64_t layer) {
  const bool gated = is_gated(b.model.activation);
  const bool fused = gated && b.names.mlp.up.empty();
  const std::string tensor = b.name_in(layer, b.names.mlp.fc1);
  const std::int64_t width = b.model.dense_ffn();
  const std::int64_t features = fused ? 2 * width : width;
  const std::int64_t first = b.part.tensor_rank * b.shape.ffn;
  const std::int64_t gate = fused && b.names.mlp.up_first ? width : 0;
  std::vector<Slice> slices = {b.output_rows(tensor, features, b.shape.hidden, gate + first, b.shape.ffn, 0)};
  if (!gated) return slices;
  slices.push_back(b.output_rows(fused ? tensor : b.name_in(layer, b.names.mlp.up), features, b.shape.hidden,
                                 fused ? width - gate + first : first, b.shape.ffn, b.shape.ffn));
  return slices;
}

void add_layer_norms(LayoutBuilder& b, std::int64_t layer) {
  const bool apart = b.model.block == Block::parallel && !b.names.norms.parallel1.empty();
  const auto name = [&](std::string_view n) { return fmt::format("{}.{}.{}", b.names.layers, layer, n); };
  if (b.model.predicted.norms != NormPlaces::after) {
    b.add_norm("norm1", layer, name(apart ? b.names.norms.parallel1 : b.names.norms.norm1));
    if (b.model.layer_norms() > 1)
      b.add_norm("norm2", layer, name(apart ? b.names.norms.parallel2 : b.names.norms.norm2));
  }
  if (b.model.predicted.norms != NormPlaces::before) {
    b.add_norm("attention_result_norm", layer, name(b.names.norms.attention_result));
    b.add_norm("mlp_result_norm", layer, name(b.names.norms.mlp_result));
  }
  if (b.model.latent) {
    b.add_norm_weight("query_rank_norm.weight", layer, b.shape.query_rank,
                      b.name_in(layer, b.names.latent.query_down_norm));
    b.add_norm_weight("kv_rank_norm.weight", layer, b.shape.kv_rank,
                      b.name_in(layer, b.names.latent.kv_down_norm));
  }
  if (!b.model.norms.qk) return;
  const bool width = b.model.predicted.query_norm == QueryNorm::width;
  b.add_norm_weight("query_norm.weight", layer, width ? b.shape.query : b.model.head_dim,
                    b.name_in(layer, b.names.attention.query_norm));
  b.add_norm_weight("key_norm.weight", layer, width ? b.shape.key : b.model.head_dim,
                    b.name_in(layer, b.names.attention.key_norm));
}

}  // namespace

std::vector<Slice> qkv_slices(const LayoutBuilder& b, std::int64_t layer) {
  const std::int64_t d = b.model.head_dim;
  const std::int64_t group = b.model.heads / b.model.kv_heads;
  const std::int64_t all_query = b.model.heads * d;
  const std::int64_t all_key = b.model.kv_heads * d;
  const std::int64_t first_query = b.part.tensor_rank * b.shape.query;
  // With fewer KV heads than tensor ranks, neighbouring ranks hold the same head.
  const std::int64_t first_key = b.model.kv_heads >= b.part.tensor_size
                                     ? b.part.tensor_rank * b.shape.key
                                     : b.part.tensor_rank * b.model.kv_heads / b.part.tensor_size * d;
  const std::int64_t key_row = b.shape.query;
  const std::int64_t value_row = b.shape.query + b.shape.key;
  const std::string tensor = b.name_in(layer, b.names.attention.query);
  const std::int64_t features = all_query + 2 * all_key;
  switch (b.names.attention.fused) {
    case FusedQkv::stacked:
      return {b.output_rows(tensor, features, b.shape.hidden, first_query, b.shape.query, 0),
              b.output_rows(tensor, features, b.shape.hidden, all_query + first_key, b.shape.key, key_row),
              b.output_rows(tensor, features, b.shape.hidden, all_query + all_key + first_key, b.shape.key,
                            value_row)};
    case FusedQkv::per_group: {
      std::vector<Slice> slices;
      slices.reserve(static_cast<std::size_t>((b.shape.query + 2 * b.shape.key) / d));
      for (std::int64_t local = 0; local < b.shape.query; local += d) {
        const std::int64_t head = (first_query + local) / d;
        const std::int64_t row = (head / group * (group + 2) + head % group) * d;
        append_head(b, slices, b.output_rows(tensor, features, b.shape.hidden, row, d, local));
      }
      for (const std::int64_t part : {0, 1}) {
        for (std::int64_t local = 0; local < b.shape.key; local += d) {
          const std::int64_t row = ((first_key + local) / d * (group + 2) + group + part) * d;
          const Slice head = b.output_rows(tensor, features, b.shape.hidden, row, d,
                                           (part == 0 ? key_row : value_row) + local);
          if (part == 0) append_head(b, slices, head);
          if (part == 1) slices.push_back(head);
        }
      }
      return slices;
    }
    case FusedQkv::none:
      break;
  }
  return {b.output_rows(tensor, all_query, b.shape.hidden, first_query, b.shape.query, 0),
          b.output_rows(b.name_in(layer, b.names.attention.key), all_key, b.shape.hidden, first_key,
                        b.shape.key, key_row),
          b.output_rows(b.name_in(layer, b.names.attention.value), all_key, b.shape.hidden, first_key,
                        b.shape.key, value_row)};
}

void add_latent_attention(LayoutBuilder& b, std::int64_t layer, int unit) {
  const LatentAttention& latent = b.model.latent;
  const std::int64_t h = b.shape.hidden;
  const std::int64_t heads = b.model.heads / b.part.tensor_size;
  const std::int64_t d = b.model.head_dim;
  const std::int64_t both = latent.nope_dim + latent.value_dim;
  const std::string query_up = b.name_in(layer, b.names.latent.query_up);
  const std::string kv_up = b.name_in(layer, b.names.latent.kv_up);
  const std::int64_t kv_down = latent.kv_rank + latent.rope_dim;
  Parameter& down = b.add_matrix("down.weight", layer, b.shape.compressed, h, unit);
  down.replicated = true;
  down.slices = {
      b.output_rows(b.name_in(layer, b.names.latent.query_down), latent.query_rank, h, 0, latent.query_rank,
                    0),
      b.output_rows(b.name_in(layer, b.names.latent.kv_down), kv_down, h, 0, kv_down, latent.query_rank)};
  std::vector<Slice> queries;
  std::vector<Slice> keys_values;  // of files head by head, here all keys first
  queries.reserve(static_cast<std::size_t>(2 * heads));
  keys_values.reserve(static_cast<std::size_t>(2 * heads));
  for (std::int64_t local = 0; local < heads; ++local) {
    const std::int64_t head = b.part.tensor_rank * heads + local;
    const auto query_rows = [&](std::int64_t first, std::int64_t count, std::int64_t at) {
      queries.push_back(b.output_rows(query_up, b.model.heads * d, latent.query_rank, head * d + first, count,
                                      local * d + at));
    };
    query_rows(latent.nope_dim, latent.rope_dim, 0);
    query_rows(0, latent.nope_dim, latent.rope_dim);
    const auto key_value_rows = [&](std::int64_t first, std::int64_t count, std::int64_t at) {
      keys_values.push_back(b.output_rows(kv_up, b.model.heads * both, latent.kv_rank, head * both + first,
                                          count, at + local * count));
    };
    key_value_rows(0, latent.nope_dim, 0);
    key_value_rows(latent.nope_dim, latent.value_dim, b.shape.own_keys);
  }
  b.add_matrix("queries.weight", layer, b.shape.query, latent.query_rank, unit).slices = std::move(queries);
  b.add_matrix("keys_values.weight", layer, b.shape.own_keys + b.shape.value, latent.kv_rank, unit).slices =
      std::move(keys_values);
}

void add_layer(LayoutBuilder& b, std::int64_t layer) {
  const std::int64_t h = b.shape.hidden;
  const std::int64_t all_heads = b.model.heads * b.model.value_dim();
  const std::vector<Slice> qkv = b.model.latent ? std::vector<Slice>() : qkv_slices(b, layer);
  const std::vector<Slice> fc1 = fc1_slices(b, layer);
  const Slice proj = b.input_cols(b.name_in(layer, b.names.attention.projection), h, all_heads,
                                  b.part.tensor_rank * b.shape.attended, b.shape.attended);
  const Slice fc2 = b.input_cols(b.name_in(layer, b.names.mlp.fc2), h, b.model.dense_ffn(),
                                 b.part.tensor_rank * b.shape.ffn, b.shape.ffn);
  add_layer_norms(b, layer);
  if (b.model.biases.qkv) b.add_split_bias("qkv.bias", layer, b.shape.qkv, qkv);
  if (b.model.has_projection_bias()) b.add_whole_bias("proj.bias", layer, bias_name(proj.tensor));
  if (b.model.has_feed_forward_bias() && !b.model.has_experts(layer)) {
    b.add_split_bias("fc1.bias", layer, b.shape.fc1, fc1);
    b.add_whole_bias("fc2.bias", layer, bias_name(fc2.tensor));
  }
  const int unit = b.new_unit();
  if (b.model.latent) {
    add_latent_attention(b, layer, unit);
  } else {
    b.add_matrix("qkv.weight", layer, b.shape.qkv, h, unit).slices = qkv;
  }
  b.add_matrix("proj.weight", layer, h, b.shape.attended, unit).slices = {proj};
  if (b.model.has_experts(layer)) {
    add_experts(b, layer, unit);
  } else {
    b.add_matrix("fc1.weight", layer, b.shape.fc1, h, unit).slices = fc1;
    b.add_matrix("fc2.weight", layer, h, b.shape.ffn, unit).slices = {fc2};
  }
  if (b.finetune.lora()) add_adapters(b, layer, qkv, proj, fc1, fc2);
}

}  // namespace plumbline::training
