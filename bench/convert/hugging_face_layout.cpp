#include "bench/convert/hugging_face_layout.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "bench/training/parameters/tensor_names.hpp"

namespace plumbline::convert {
namespace {

using training::FusedQkv;
using training::TensorNames;

class HuggingFaceTensors {
 public:
  explicit HuggingFaceTensors(const ModelConfig& model)
      : model_(model), names_(training::tensor_names(model)) {}

  std::vector<TensorLayout> all() {
    whole("embedding.weight", fmt::format("{}.weight", names_.embedding), model_.vocab, model_.hidden);
    if (model_.position_rows() > 0)
      whole("positions.weight", fmt::format("{}.weight", names_.positions), model_.position_rows(),
            model_.hidden);
    for (std::int64_t layer = 0; layer < model_.layers; ++layer) add_layer(layer);
    norm("final_norm", std::string(names_.final_norm), model_.hidden, model_.norm == Norm::layer);
    if (!model_.tied_embeddings)
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

  void attention(const std::string& own, const std::string& prefix) {
    const std::int64_t query = model_.heads * model_.head_dim;
    const std::int64_t key = model_.kv_heads * model_.head_dim;
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    for (const Part& part : parts(model_.qkv_bias)) {
      const std::int64_t cols = part.bias ? 0 : model_.hidden;
      switch (names_.fused) {
        case FusedQkv::none:
          linear(TensorBuilder(name(names_.query) + part.suffix, cols)
                     .rows(own + "query" + part.suffix, 0, query)
                     .done());
          linear(TensorBuilder(name(names_.key) + part.suffix, cols)
                     .rows(own + "key" + part.suffix, 0, key)
                     .done());
          linear(TensorBuilder(name(names_.value) + part.suffix, cols)
                     .rows(own + "value" + part.suffix, 0, key)
                     .done());
          break;
        case FusedQkv::stacked:
          linear(TensorBuilder(name(names_.query) + part.suffix, cols)
                     .rows(own + "query" + part.suffix, 0, query)
                     .rows(own + "key" + part.suffix, 0, key)
                     .rows(own + "value" + part.suffix, 0, key)
                     .done());
          break;
        case FusedQkv::per_group:
          linear(interleaved_qkv(model_, own, name(names_.query), part));
          break;
      }
    }
    if (model_.qk_norm) {
      norm(own + "query_norm", name(names_.query_norm), model_.head_dim, false);
      norm(own + "key_norm", name(names_.key_norm), model_.head_dim, false);
    }
    linear(own + "proj", name(names_.projection), model_.hidden, query, model_.linear_bias);
  }

  void feed_forward(const std::string& own, const std::string& prefix) {
    const auto name = [&](std::string_view n) { return prefix + std::string(n); };
    const bool gated = is_gated(model_.activation);
    if (gated && names_.up.empty()) {
      for (const Part& part : parts(model_.linear_bias)) {
        TensorBuilder fused(name(names_.fc1) + part.suffix, part.bias ? 0 : model_.hidden);
        fused.rows(own + (names_.up_first ? "up" : "gate") + part.suffix, 0, model_.ffn);
        fused.rows(own + (names_.up_first ? "gate" : "up") + part.suffix, 0, model_.ffn);
        linear(fused.done());
      }
    } else {
      linear(own + (gated ? "gate" : "up"), name(names_.fc1), model_.ffn, model_.hidden, model_.linear_bias);
      if (gated) linear(own + "up", name(names_.up), model_.ffn, model_.hidden, model_.linear_bias);
    }
    linear(own + "down", name(names_.fc2), model_.hidden, model_.ffn, model_.linear_bias);
  }

  void experts(const std::string& own, const std::string& prefix) {
    whole(own + "router.weight", fmt::format("{}{}.weight", prefix, names_.router), model_.mixture.experts,
          model_.hidden);
    for (std::int64_t expert = 0; expert < model_.mixture.experts; ++expert) {
      const std::string own_expert = fmt::format("{}experts.{}.", own, expert);
      const std::string stored = fmt::format("{}{}.{}.", prefix, names_.experts, expert);
      const auto name = [&](std::string_view n) { return stored + std::string(n); };
      linear(own_expert + "gate", name(names_.expert_gate), model_.ffn, model_.hidden, false);
      linear(own_expert + "up", name(names_.expert_up), model_.ffn, model_.hidden, false);
      linear(own_expert + "down", name(names_.expert_down), model_.hidden, model_.ffn, false);
    }
  }

  void add_layer(std::int64_t layer) {
    const std::string own = fmt::format("layers.{}.", layer);
    const std::string prefix = fmt::format("{}.{}.", names_.layers, layer);
    const bool with_bias = model_.norm == Norm::layer;
    norm(own + "norm1", prefix + std::string(names_.norm1), model_.hidden, with_bias);
    norm(own + "norm2", prefix + std::string(names_.norm2), model_.hidden, with_bias);
    attention(own, prefix);
    if (model_.mixture) return experts(own, prefix);
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
