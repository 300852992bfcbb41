#include "bench/training/parameters/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"

namespace plumbline::training {
namespace {

/// Checkpoint names and layouts of one model family.
struct Names {
  bool gpt2 = false;
  std::string embedding() const { return gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight"; }
  static std::string positions() { return "transformer.wpe.weight"; }
  std::string final_norm(std::string_view what) const {
    return fmt::format("{}.{}", gpt2 ? "transformer.ln_f" : "model.norm", what);
  }
  static std::string output() { return "lm_head.weight"; }
  std::string in_layer(std::int64_t layer, std::string_view name) const {
    return fmt::format("{}.{}.{}", gpt2 ? "transformer.h" : "model.layers", layer, name);
  }
};

class Builder {
 public:
  Builder(const RunConfig& config, const StagePart& part)
      : model_(config.model), part_(part), shape_(config) {
    names_.gpt2 = model_.architecture == "gpt2";
  }

  ParameterLayout build() {
    if (part_.has_embedding) add_vocabulary("embedding.weight", names_.embedding(), false);
    if (part_.first() && model_.positions == Positions::learned) {
      Parameter& p = add_matrix("positions.weight", -1, model_.max_positions, shape_.hidden, new_unit());
      p.replicated = true;
      p.slices = {whole(Names::positions(), p)};
    }
    for (std::int64_t i = 0; i < part_.layers; ++i) add_layer(part_.first_layer + i);
    if (part_.last()) add_norm("final_norm", -1, names_.final_norm("weight"), names_.final_norm("bias"));
    if (part_.has_output) {
      if (!model_.tied_embeddings) {
        add_vocabulary("output.weight", Names::output(), false);
      } else if (!part_.shares_embedding) {
        add_vocabulary("output.weight", names_.embedding(), true);
      }
    }
    place_vectors(true);
    stage_.replicated_vectors = stage_.vectors;
    place_vectors(false);
    return std::move(stage_);
  }

 private:
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

  void place_vectors(bool replicated) {
    for (Parameter& p : stage_.list) {
      if (p.unit >= 0 || p.replicated != replicated) continue;
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

  void add_norm(const std::string& role, std::int64_t layer, const std::string& weight,
                const std::string& bias) {
    Parameter& w = add(role + ".weight", layer, 1, shape_.hidden, Fill::ones);
    w.replicated = true;
    w.slices = {whole(weight, w)};
    if (model_.norm != Norm::layer) return;
    Parameter& b = add(role + ".bias", layer, 1, shape_.hidden, Fill::zeros);
    b.replicated = true;
    b.slices = {whole(bias, b)};
  }

  /// Output features [first, first + count) of a linear layer, as `local_row`… of the local weight or bias.
  Slice output_rows(const std::string& tensor, std::int64_t features, std::int64_t inputs, std::int64_t first,
                    std::int64_t count, std::int64_t local_row) const {
    Slice s;
    s.tensor = tensor;
    s.transposed = names_.gpt2;
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
    s.transposed = names_.gpt2;
    s.tensor_rows = s.rows = features;
    s.tensor_cols = inputs;
    s.col = first;
    s.cols = count;
    return s;
  }

  void add_layer(std::int64_t layer) {
    const bool gpt2 = names_.gpt2;
    const auto name = [&](std::string_view n) { return names_.in_layer(layer, n); };
    const std::int64_t h = shape_.hidden;
    const std::int64_t rank = part_.tensor_rank;
    const std::int64_t d = model_.head_dim;
    const std::int64_t all_query = model_.heads * d;
    const std::int64_t all_key = model_.kv_heads * d;
    // With fewer KV heads than tensor ranks, neighbouring ranks hold the same head.
    const std::int64_t first_key = model_.kv_heads >= part_.tensor_size
                                       ? rank * shape_.key
                                       : rank * model_.kv_heads / part_.tensor_size * d;
    const bool swiglu = model_.activation == Activation::swiglu;

    std::vector<Slice> qkv;
    if (gpt2) {
      const std::string tensor = name("attn.c_attn.weight");
      const std::int64_t features = all_query + 2 * all_key;
      qkv = {output_rows(tensor, features, h, rank * shape_.query, shape_.query, 0),
             output_rows(tensor, features, h, all_query + first_key, shape_.key, shape_.query),
             output_rows(tensor, features, h, all_query + all_key + first_key, shape_.key,
                         shape_.query + shape_.key)};
    } else {
      qkv = {output_rows(name("self_attn.q_proj.weight"), all_query, h, rank * shape_.query, shape_.query, 0),
             output_rows(name("self_attn.k_proj.weight"), all_key, h, first_key, shape_.key, shape_.query),
             output_rows(name("self_attn.v_proj.weight"), all_key, h, first_key, shape_.key,
                         shape_.query + shape_.key)};
    }
    const std::string fc1_name = name(gpt2 ? "mlp.c_fc.weight" : "mlp.gate_proj.weight");
    std::vector<Slice> fc1 = {output_rows(fc1_name, model_.ffn, h, rank * shape_.ffn, shape_.ffn, 0)};
    if (swiglu) {
      fc1.push_back(
          output_rows(name("mlp.up_proj.weight"), model_.ffn, h, rank * shape_.ffn, shape_.ffn, shape_.ffn));
    }
    const Slice proj = input_cols(name(gpt2 ? "attn.c_proj.weight" : "self_attn.o_proj.weight"), h, all_query,
                                  rank * shape_.query, shape_.query);
    const Slice fc2 = input_cols(name(gpt2 ? "mlp.c_proj.weight" : "mlp.down_proj.weight"), h, model_.ffn,
                                 rank * shape_.ffn, shape_.ffn);

    add_norm("norm1", layer, name(gpt2 ? "ln_1.weight" : "input_layernorm.weight"), name("ln_1.bias"));
    add_norm("norm2", layer, name(gpt2 ? "ln_2.weight" : "post_attention_layernorm.weight"),
             name("ln_2.bias"));
    const auto bias_of = [](std::string weight) { return weight.replace(weight.size() - 6, 6, "bias"); };
    if (model_.qkv_bias) add_split_bias("qkv.bias", layer, shape_.qkv, qkv, bias_of);
    if (model_.linear_bias) {
      add_whole_bias("proj.bias", layer, bias_of(proj.tensor));
      add_split_bias("fc1.bias", layer, shape_.fc1, fc1, bias_of);
      add_whole_bias("fc2.bias", layer, bias_of(fc2.tensor));
    }
    const int unit = new_unit();
    add_matrix("qkv.weight", layer, shape_.qkv, h, unit).slices = qkv;
    add_matrix("proj.weight", layer, h, shape_.query, unit).slices = {proj};
    add_matrix("fc1.weight", layer, shape_.fc1, h, unit).slices = fc1;
    add_matrix("fc2.weight", layer, h, shape_.ffn, unit).slices = {fc2};
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

  const ModelConfig& model_;
  const StagePart& part_;
  LayerWidths shape_;
  Names names_;
  ParameterLayout stage_;
};

}  // namespace

const Parameter& ParameterLayout::find(std::string_view role, std::int64_t layer) const {
  for (const Parameter& parameter : list) {
    if (parameter.layer == layer && parameter.role == role) return parameter;
  }
  throw Error(fmt::format("no parameter {} of layer {} in this stage", role, layer));
}

ParameterLayout stage_parameters(const RunConfig& config, const StagePart& part) {
  return Builder(config, part).build();
}

}  // namespace plumbline::training
