// Lists parameters and places matrices in units, for one stage on one tensor rank; the parameters of a layer
// (`layer`: its global index).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/training/parameters/layer_widths.hpp"
#include "bench/training/parameters/parameters.hpp"
#include "bench/training/parameters/stage_map.hpp"
#include "core/config/families/tensor_names.hpp"

namespace plumbline::training {

/// All of a parameter is one tensor of the checkpoint.
Slice whole(std::string tensor, const Parameter& p);
/// "<name>.weight"; and the bias that goes with a weight's name.
std::string weight_of(std::string_view name);
std::string bias_name(std::string weight);

/// The list grows by its calls. References to parameters hold until the next call that adds one.
struct LayoutBuilder {
  LayoutBuilder(const RunConfig& config, const StagePart& stage_part);

  const FinetuneConfig& finetune;
  const ModelConfig& model;
  const StagePart& part;
  LayerWidths shape;
  const TensorNames& names;
  ParameterLayout stage;

  int new_unit();
  Parameter& add(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols, Fill fill);
  Parameter& add_matrix(std::string role, std::int64_t layer, std::int64_t rows, std::int64_t cols, int unit);
  /// A vector that multiplies a norm's result.
  void add_norm_weight(const std::string& role, std::int64_t layer, std::int64_t width,
                       const std::string& tensor);
  void add_norm(const std::string& role, std::int64_t layer, const std::string& name);
  void add_split_bias(const std::string& role, std::int64_t layer, std::int64_t width,
                      const std::vector<Slice>& weights);
  void add_whole_bias(const std::string& role, std::int64_t layer, const std::string& tensor);
  /// Output features [first, first + count) of a linear layer, as `local_row`… of the local weight or bias.
  Slice output_rows(const std::string& tensor, std::int64_t features, std::int64_t inputs, std::int64_t first,
                    std::int64_t count, std::int64_t local_row) const;
  Slice input_cols(const std::string& tensor, std::int64_t features, std::int64_t inputs, std::int64_t first,
                   std::int64_t count) const;
  std::string name_in(std::int64_t layer, std::string_view name) const;
};

/// Norms, biases, then the matrices as a unit, then adapters as another. The functions below are its parts.
void add_layer(LayoutBuilder& b, std::int64_t layer);

/// The rank's rows of queries, keys and values: whole blocks of the tensors, or head by head.
std::vector<Slice> qkv_slices(const LayoutBuilder& b, std::int64_t layer);

/// Parameters of latent attention. Query heads are reordered: rotated elements come first.
void add_latent_attention(LayoutBuilder& b, std::int64_t layer, int unit);

/// The router whole; of every expert the part that a feed-forward layer has on this rank, one below the
/// other.
void add_experts(LayoutBuilder& b, std::int64_t layer, int unit);

/// Adapters of the layer's linear layers, under PEFT's names. Tensor parallelism shards them as PEFT does
/// for Megatron's layers (peft/tuners/lora/tp_layer.py): A of a column-parallel layer and B of a
/// row-parallel one are replicated.
void add_adapters(LayoutBuilder& b, std::int64_t layer, const std::vector<Slice>& qkv, const Slice& proj,
                  const std::vector<Slice>& fc1, const Slice& fc2);

}  // namespace plumbline::training
