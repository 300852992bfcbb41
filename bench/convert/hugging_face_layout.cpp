#include "bench/convert/hugging_face_layout.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "core/config/families/tensor_names.hpp"

namespace plumbline::convert {
namespace {

class HuggingFaceTensors {
 public:
  explicit HuggingFaceTensors(const ModelConfig& model) : model_(model), names_(tensor_names(model)) {}

  std::vector<TensorLayout> all() {
    whole("embedding.weight", fmt::format("{}.weight", names_.embedding), model_.vocab, model_.hidden);
    if (model_.position_rows() > 0)
      whole("positions.weight", fmt::format("{}.weight", names_.positions), model_.position_rows(),
            model_.hidden);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) add_layer(layer);
    norm("final_norm", std::string(names_.final_norm), model_.hidden, model_.norms.kind == Norm::layer);
    if (!model_.embedding.tied)
      whole("output.weight", fmt::format("{}.weight", names_.output), model_.vocab, model_.hidden);
    return std::move(tensors_);
  }

 private:
  void whole(const std::string& own, const std::string& name, std::int64_t rows, std::int64_t cols) {
    tensors_.push_back(TensorBuilder(name, cols).rows(own, 0, rows).done());
  }
  void norm(const std::string& own, const std::string& name, std::int64_t width, bool with_bias) {
    for (const Part& part : parts(with_bias)) whole(own + part.suffix, name + part.suffix, width, 0);
  }
  void linear(TensorLayout tensor) {
    tensor.transposed = names_.transposed && !tensor.vector;
    tensors_.push_back(std::move(tensor));
  }
  void linear(const std::string& own, const std::string& name, std::int64_t rows, std::int64_t cols,
              bool with_bias) {
    for (const Part& part : parts(with_bias)) {
      linear(TensorBuilder(name + part.suffix, part.bias ? 0 : cols).rows(own + part.suffix, 0, rows).done());
    }
  }

  /// Latent attention: queries, and keys with values, are made from short normed vectors.
  void latent_attention(const std::string& own, const std::string& prefix) {
    const LatentAttention& latent = model_.latent;
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    const std::int64_t query = model_.heads * model_.head_dim;
    if (latent.query_rank > 0) {
      linear(own + "query_down", name(names_.latent.query_down), latent.query_rank, model_.hidden, false);
      norm(own + "query_rank_norm", name(names_.latent.query_down_norm), latent.query_rank, false);
      linear(own + "query_up", name(names_.latent.query_up), query, latent.query_rank, false);
    } else {
      linear(own + "query_up", name(names_.attention.query), query, model_.hidden, false);
    }
    linear(own + "kv_down", name(names_.latent.kv_down), latent.kv_rank + latent.rope_dim, model_.hidden,
           false);
    norm(own + "kv_rank_norm", name(names_.latent.kv_down_norm), latent.kv_rank, false);
    linear(own + "kv_up", name(names_.latent.kv_up), model_.heads * (latent.nope_dim + latent.value_dim),
           latent.kv_rank, false);
    linear(own + "proj", name(names_.attention.projection), model_.hidden, model_.heads * latent.value_dim,
           false);
  }

  void attention(const std::string& own, const std::string& prefix) {
    if (model_.latent) return latent_attention(own, prefix);
    const std::int64_t query = model_.heads * model_.head_dim;
    const std::int64_t key = model_.kv_heads * model_.head_dim;
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    for (const Part& part : parts(model_.biases.qkv)) {
      const std::int64_t cols = part.bias ? 0 : model_.hidden;
      switch (names_.attention.fused) {
        case FusedQkv::none:
          linear(TensorBuilder(name(names_.attention.query) + part.suffix, cols)
                     .rows(own + "query" + part.suffix, 0, query)
                     .done());
          linear(TensorBuilder(name(names_.attention.key) + part.suffix, cols)
                     .rows(own + "key" + part.suffix, 0, key)
                     .done());
          linear(TensorBuilder(name(names_.attention.value) + part.suffix, cols)
                     .rows(own + "value" + part.suffix, 0, key)
                     .done());
          break;
        case FusedQkv::stacked:
          linear(TensorBuilder(name(names_.attention.query) + part.suffix, cols)
                     .rows(own + "query" + part.suffix, 0, query)
                     .rows(own + "key" + part.suffix, 0, key)
                     .rows(own + "value" + part.suffix, 0, key)
                     .done());
          break;
        case FusedQkv::per_group:
          linear(interleaved_qkv(model_, own, name(names_.attention.query), part));
          break;
      }
    }
    if (model_.norms.qk) {
      const bool width = model_.predicted.query_norm == QueryNorm::width;
      norm(own + "query_norm", name(names_.attention.query_norm), width ? query : model_.head_dim, false);
      norm(own + "key_norm", name(names_.attention.key_norm), width ? key : model_.head_dim, false);
    }
    linear(own + "proj", name(names_.attention.projection), model_.hidden, query,
           model_.has_projection_bias());
  }

  void feed_forward(const std::string& own, const std::string& prefix) {
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    const bool gated = is_gated(model_.activation);
    const bool with_bias = model_.has_feed_forward_bias();
    const std::int64_t width = model_.dense_ffn();
    if (gated && names_.mlp.up.empty()) {
      for (const Part& part : parts(with_bias)) {
        TensorBuilder fused(name(names_.mlp.fc1) + part.suffix, part.bias ? 0 : model_.hidden);
        fused.rows(own + (names_.mlp.up_first ? "up" : "gate") + part.suffix, 0, width);
        fused.rows(own + (names_.mlp.up_first ? "gate" : "up") + part.suffix, 0, width);
        linear(fused.done());
      }
    } else {
      linear(own + (gated ? "gate" : "up"), name(names_.mlp.fc1), width, model_.hidden, with_bias);
      if (gated) linear(own + "up", name(names_.mlp.up), width, model_.hidden, with_bias);
    }
    linear(own + "down", name(names_.mlp.fc2), model_.hidden, width, with_bias);
  }

  void expert(const std::string& own, const std::string& prefix, std::int64_t width) {
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    linear(own + "gate", name(names_.mixture.gate), width, model_.hidden, false);
    linear(own + "up", name(names_.mixture.up), width, model_.hidden, false);
    linear(own + "down", name(names_.mixture.down), model_.hidden, width, false);
  }

  void experts(const std::string& own, const std::string& prefix) {
    const Mixture& mixture = model_.mixture;
    whole(own + "router.weight", fmt::format("{}{}.weight", prefix, names_.mixture.router), mixture.experts,
          model_.hidden);
    if (mixture.expert_bias)
      whole(own + "router.bias", fmt::format("{}{}", prefix, names_.mixture.expert_bias),
            names_.mixture.expert_bias_row ? 1 : mixture.experts,
            names_.mixture.expert_bias_row ? mixture.experts : 0);
    for (std::int64_t e = 0; e < mixture.experts; ++e)
      expert(fmt::format("{}experts.{}.", own, e), fmt::format("{}{}.{}.", prefix, names_.mixture.experts, e),
             model_.ffn);
    if (mixture.shared == 0) return;
    expert(own + "shared.", fmt::format("{}{}.", prefix, names_.mixture.shared), mixture.shared);
    if (mixture.shared_gated)
      whole(own + "shared_gate.weight", fmt::format("{}{}.weight", prefix, names_.mixture.shared_gate), 1,
            model_.hidden);
  }

  void add_layer(std::int64_t layer) {
    const std::string own = fmt::format("layers.{}.", layer);
    const std::string prefix = fmt::format("{}.{}.", names_.layers, layer);
    const bool with_bias = model_.norms.kind == Norm::layer;
    const auto layer_norm = [&](const char* ours, std::string_view theirs) {
      norm(own + ours, prefix + std::string(theirs), model_.hidden, with_bias);
    };
    if (model_.predicted.norms != NormPlaces::after) {
      layer_norm("norm1", names_.norms.norm1);
      layer_norm("norm2", names_.norms.norm2);
    }
    if (model_.predicted.norms != NormPlaces::before) {
      layer_norm("attention_result_norm", names_.norms.attention_result);
      layer_norm("mlp_result_norm", names_.norms.mlp_result);
    }
    attention(own, prefix);
    if (model_.has_experts(layer)) return experts(own, prefix);
    feed_forward(own, prefix);
  }

  const ModelConfig& model_;
  const TensorNames& names_;
  std::vector<TensorLayout> tensors_;
};

}  // namespace

std::vector<TensorLayout> hugging_face_layout(const ModelConfig& model) {
  return HuggingFaceTensors(model).all();
}

}  // namespace plumbline::convert
