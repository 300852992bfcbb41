// Sources: megatron/core/models/gpt, transformer/attention.py (order of queries, keys and values),
// tensor_parallel/layers.py, training/checkpointing.py (folders) of NVIDIA/Megatron-LM;
// megatron/core/tokenizers/utils/build_tokenizer.py (padding).
#include "bench/convert/megatron_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace plumbline::convert {
namespace {

class MegatronTensors {
 public:
  MegatronTensors(const ModelConfig& model, const MegatronSizes& sizes, const MegatronRank& rank)
      : model_(model), sizes_(sizes), rank_(rank) {}

  std::vector<TensorLayout> all() {
    const MegatronChunk& chunk = rank_.chunk;
    if (chunk.first) {
      vocabulary("embedding.weight", "embedding.word_embeddings.weight");
      if (model_.position_rows() > 0) {
        whole("positions.weight", "embedding.position_embeddings.weight", "", model_.position_rows(),
              model_.hidden);
      }
    }
    for (std::int64_t layer = 0; layer < chunk.layers; ++layer) add_layer(layer);
    if (chunk.last) {
      norm("final_norm", "decoder.final_layernorm.", "", model_.norms.kind == Norm::layer);
      // A tied table is the same tensor where both ends are; else the last stage has a copy.
      if (!model_.embedding.tied) vocabulary("output.weight", "output_layer.weight");
      if (model_.embedding.tied && !chunk.first && sizes_.pipeline > 1)
        vocabulary("embedding.weight", "output_layer.weight");
    }
    return std::move(tensors_);
  }

 private:
  void whole(const std::string& own, const std::string& name, const std::string& also, std::int64_t rows,
             std::int64_t cols) {
    tensors_.push_back(TensorBuilder(name, cols, also).rows(own, 0, rows).done());
  }
  /// `also`: the local specification's name, "" where it is the same.
  void norm(const std::string& own, const std::string& name, const std::string& also, bool with_bias) {
    for (const Part& part : parts(with_bias)) {
      const std::string suffix(part.suffix + 1);
      whole(own + part.suffix, name + suffix, also.empty() ? "" : also + part.suffix, model_.hidden, 0);
    }
  }

  /// Output features split over the tensor ranks.
  void by_rows(const TensorLayout& tensor) {
    const std::int64_t count = tensor.rows / sizes_.tensor;
    tensors_.push_back(cut_rows(tensor, rank_.tensor_rank * count, count));
  }

  void vocabulary(const std::string& own, const std::string& name) {
    TensorLayout table = TensorBuilder(name, model_.hidden).rows(own, 0, model_.vocab).done();
    table.type_of = own;  // a rank may have padding only
    if (rank_.padding == VocabularyPadding::zero) table.rows = std::max(table.rows, rank_.padded_vocab);
    for (; table.rows < rank_.padded_vocab; ++table.rows)
      table.blocks.push_back({own, model_.vocab - 1, 0, 1, model_.hidden, table.rows, 0, true});
    by_rows(table);
  }

  /// fc1: with a gate the rank's rows of it, then those of the gated projection.
  void expand(const std::string& own, const std::string& name, const std::string& also, const Part& part,
              std::int64_t width) {
    const std::int64_t count = width / sizes_.tensor;
    const std::int64_t first = rank_.tensor_rank * count;
    TensorBuilder tensor(name, part.bias ? 0 : model_.hidden, also);
    if (is_gated(model_.activation)) tensor.rows(own + "gate" + part.suffix, first, count);
    tensor.rows(own + "up" + part.suffix, first, count);
    tensors_.push_back(tensor.done());
  }

  /// Input features split over the tensor ranks; the bias is added once, behind their sum.
  void contract(const std::string& own, const std::string& name, const std::string& also,
                std::int64_t inputs) {
    const TensorLayout tensor = TensorBuilder(name, inputs, also).rows(own, 0, model_.hidden).done();
    const std::int64_t count = inputs / sizes_.tensor;
    tensors_.push_back(cut_cols(tensor, rank_.tensor_rank * count, count));
  }

  /// Heads are split; the matrices that compress for all of them are on every rank. Norms belong to the
  /// products behind them.
  void latent_attention(const std::string& own, const std::string& prefix) {
    const LatentAttention& latent = model_.latent;
    const std::string name = prefix + "self_attention.";
    const auto up = [&](const char* own_name, const std::string& theirs, std::int64_t rows,
                        std::int64_t cols) {
      by_rows(TensorBuilder(theirs, cols).rows(own + own_name, 0, rows).done());
    };
    const std::int64_t query = model_.heads * model_.head_dim;
    if (latent.query_rank > 0) {
      whole(own + "query_down.weight", name + "linear_q_down_proj.weight", "", latent.query_rank,
            model_.hidden);
      whole(own + "query_rank_norm.weight", name + "linear_q_up_proj.layer_norm_weight",
            name + "q_layernorm.weight", latent.query_rank, 0);
      up("query_up.weight", name + "linear_q_up_proj.weight", query, latent.query_rank);
    } else {
      up("query_up.weight", name + "linear_q_proj.weight", query, model_.hidden);
    }
    whole(own + "kv_down.weight", name + "linear_kv_down_proj.weight", "", latent.kv_rank + latent.rope_dim,
          model_.hidden);
    whole(own + "kv_rank_norm.weight", name + "linear_kv_up_proj.layer_norm_weight",
          name + "kv_layernorm.weight", latent.kv_rank, 0);
    up("kv_up.weight", name + "linear_kv_up_proj.weight", model_.heads * (latent.nope_dim + latent.value_dim),
       latent.kv_rank);
    contract(own + "proj.weight", name + "linear_proj.weight", "", model_.heads * latent.value_dim);
  }

  void attention(const std::string& own, const std::string& prefix) {
    if (model_.latent) return latent_attention(own, prefix);
    const std::string name = prefix + "self_attention.";
    for (const Part& part : parts(model_.biases.qkv))
      by_rows(interleaved_qkv(model_, own, name + "linear_qkv", part));
    if (model_.norms.qk) {
      whole(own + "query_norm.weight", name + "q_layernorm.weight", "", model_.head_dim, 0);
      whole(own + "key_norm.weight", name + "k_layernorm.weight", "", model_.head_dim, 0);
    }
    contract(own + "proj.weight", name + "linear_proj.weight", "", model_.heads * model_.head_dim);
    if (model_.biases.linear) whole(own + "proj.bias", name + "linear_proj.bias", "", model_.hidden, 0);
  }

  void feed_forward(const std::string& own, const std::string& prefix) {
    for (const Part& part : parts(model_.biases.linear)) {
      expand(own, prefix + "mlp.linear_fc1" + part.suffix, "", part, model_.dense_ffn());
    }
    contract(own + "down.weight", prefix + "mlp.linear_fc2.weight", "", model_.dense_ffn());
    if (model_.biases.linear) whole(own + "down.bias", prefix + "mlp.linear_fc2.bias", "", model_.hidden, 0);
  }

  /// `also`: as the grouped products of Transformer Engine call them.
  void experts(const std::string& own, const std::string& prefix) {
    const Mixture& mixture = model_.mixture;
    whole(own + "router.weight", prefix + "mlp.router.weight", "", mixture.experts, model_.hidden);
    if (mixture.expert_bias)
      whole(own + "router.bias", prefix + "mlp.router.expert_bias", "", mixture.experts, 0);
    const std::int64_t count = mixture.experts / sizes_.expert;
    for (std::int64_t local = 0; local < count; ++local) {
      const std::string own_expert = fmt::format("{}experts.{}.", own, rank_.expert_rank * count + local);
      const std::string name = fmt::format("{}mlp.experts.local_experts.{}.", prefix, local);
      const auto grouped = [&](const char* layer) {
        return fmt::format("{}mlp.experts.{}.weight{}", prefix, layer, local);
      };
      std::array fc1 = {name + "linear_fc1.weight", grouped("linear_fc1")};
      std::array fc2 = {name + "linear_fc2.weight", grouped("linear_fc2")};
      if (rank_.grouped_experts) {
        std::swap(fc1[0], fc1[1]);
        std::swap(fc2[0], fc2[1]);
      }
      expand(own_expert, fc1[0], fc1[1], {".weight", false}, model_.ffn);
      contract(own_expert + "down.weight", fc2[0], fc2[1], model_.ffn);
    }
    if (mixture.shared == 0) return;
    const std::string shared = prefix + "mlp.shared_experts.";
    expand(own + "shared.", shared + "linear_fc1.weight", "", {".weight", false}, mixture.shared);
    contract(own + "shared.down.weight", shared + "linear_fc2.weight", "", mixture.shared);
    if (mixture.shared_gated) whole(own + "shared_gate.weight", shared + "gate_weight", "", 1, model_.hidden);
  }

  void add_layer(std::int64_t layer) {
    const std::string own = fmt::format("layers.{}.", rank_.chunk.first_layer + layer);
    const std::string prefix = fmt::format("decoder.layers.{}.", layer);
    const bool with_bias = model_.norms.kind == Norm::layer;
    const bool mixture = model_.has_experts(rank_.chunk.first_layer + layer);
    // Several products read the result of latent attention's norm: none of them has it.
    norm(own + "norm1",
         model_.latent ? prefix + "input_layernorm." : prefix + "self_attention.linear_qkv.layer_norm_",
         model_.latent ? "" : prefix + "input_layernorm", with_bias);
    if (mixture) {
      norm(own + "norm2", prefix + "pre_mlp_layernorm.", "", with_bias);
    } else {
      norm(own + "norm2", prefix + "mlp.linear_fc1.layer_norm_", prefix + "pre_mlp_layernorm", with_bias);
    }
    attention(own, prefix);
    if (mixture) return experts(own, prefix);
    feed_forward(own, prefix);
  }

  const ModelConfig& model_;
  const MegatronSizes& sizes_;
  const MegatronRank& rank_;
  std::vector<TensorLayout> tensors_;
};

}  // namespace

std::vector<TensorLayout> megatron_layout(const ModelConfig& model, const MegatronSizes& sizes,
                                          const MegatronRank& rank) {
  return MegatronTensors(model, sizes, rank).all();
}

std::int64_t padded_vocabulary(std::int64_t vocab, std::int64_t multiple, int tensor) {
  const std::int64_t step = multiple * tensor;
  return (vocab + step - 1) / step * step;
}

MegatronChunk even_chunk(const ModelConfig& model, const MegatronSizes& sizes, int rank, int chunk) {
  const int stages = sizes.pipeline * sizes.virtual_chunks;
  const int stage = chunk * sizes.pipeline + rank;
  const std::int64_t layers = model.layers / stages;
  return {stage * layers, layers, stage == 0, stage == stages - 1};
}

std::string rank_folder(const MegatronSizes& sizes, int tensor, int pipeline, int expert) {
  std::string name = fmt::format("mp_rank_{:02}", tensor);
  if (sizes.pipeline > 1) name += fmt::format("_{:03}", pipeline);
  if (sizes.expert > 1) name += fmt::format("_{:03}", expert);
  return name;
}

std::optional<std::string> why_not_megatron(const ModelConfig& model) {
  const auto lacks = [&](const char* what) {
    return fmt::format("model: {}: Megatron-Core has no {}; expected a model without", model.architecture,
                       what);
  };
  if (model.position.kind == Positions::alibi) return lacks("ALiBi");
  if (model.block != plumbline::Block::sequential) return lacks("block of parallel attention and MLP");
  if (model.norms.residual != 0) return lacks("residual of normed inputs");
  if (model.position.of_blocks) return lacks("second position of a token");
  if (model.embedding.norm) return lacks("norm behind the embedding");
  if (model.norms.output_rows) return lacks("output layer of normalised rows");
  if (model.biases.output) return lacks("bias of the output layer");
  if (model.multipliers != Multipliers()) return lacks("multiplier of scores, residuals or logits");
  if (model.predicted.norms != NormPlaces::before) return lacks("norm of attention's or the MLP's result");
  if (model.norms.qk && model.predicted.query_norm != QueryNorm::head)
    return lacks("norm over all heads of queries and keys");
  if (model.norms.qk_rotated) return lacks("norm of rotated queries and keys");
  if (model.mixture.expert_bias && model.mixture.scores == RouterScores::softmax)
    return lacks("softmax score with a bias");
  if (model.has_projection_bias() != model.has_feed_forward_bias())
    return lacks("bias of attention's or the MLP's output alone");
  return std::nullopt;
}

std::optional<std::string> why_not_split(const ModelConfig& model, const MegatronSizes& sizes) {
  if (auto reason = why_tensor_split_invalid(model, sizes.tensor)) return reason;
  const std::int64_t qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  if (!model.latent && qkv % sizes.tensor != 0) {
    return fmt::format(
        "tensor_model_parallel_size: found {}, expected a divisor of the {} rows of queries, keys and values",
        sizes.tensor, qkv);
  }
  if (sizes.expert > 1 && !model.mixture) {
    return fmt::format("expert_model_parallel_size: found {}, but {} has no experts; expected 1",
                       sizes.expert, model.architecture);
  }
  if (model.mixture && model.mixture.experts % sizes.expert != 0) {
    return fmt::format("expert_model_parallel_size: found {}, expected a divisor of the {} experts",
                       sizes.expert, model.mixture.experts);
  }
  return std::nullopt;
}

std::optional<std::string> why_not_even(const ModelConfig& model, const MegatronSizes& sizes) {
  if (sizes.virtual_chunks > 1 && sizes.pipeline == 1) {
    return fmt::format("virtual_pipeline_chunks: found {} without a pipeline; expected 1, or --pp 2 or more",
                       sizes.virtual_chunks);
  }
  const std::int64_t stages = std::int64_t{sizes.pipeline} * sizes.virtual_chunks;
  if (model.layers % stages == 0) return std::nullopt;
  return fmt::format(
      "pipeline_model_parallel_size: found {} times {} virtual chunks, expected a divisor of the {} layers",
      sizes.pipeline, sizes.virtual_chunks, model.layers);
}

}  // namespace plumbline::convert
