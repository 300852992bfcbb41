// MTP modules, which predict further tokens (DeepSeek-AI 2024, arXiv:2412.19437 §2.2).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/output_end.hpp"
#include "bench/training/layer/layer.hpp"

namespace plumbline::training {

/// State of a module that the forward of one micro-batch leaves for its backward.
struct ModuleActivations {
  Tensor embedded;       // (R, h): the tokens ahead
  Tensor embedded_mask;  // of their dropout
  Tensor joined;         // (R, 2h): these and the hidden states, each through a norm
  Tensor joined_stats;   // (2, R)
  LayerActivations layer;
  OutputActivations output;
  Tensor input_gradient;  // split backward: of the layer's input, for the weight gradient
};

/// Everything after a last stage's layers, including that of the output end, which all modules share.
/// bench/training/mtp.md lists what is allocated when.
class PredictionModules {
 public:
  PredictionModules(RankResources& rank, const StageEntry& entry, const OutputEnd& output);

  /// Layers of every module, in order.
  const std::vector<Layer>& layers() const { return layers_; }
  /// Unit of the table that tokens are looked up in.
  int embedding_unit() const { return embedding_.units().front(); }

  using States = std::vector<ModuleActivations>;
  using NoteRouting = std::function<void(const Layer&, const Routing&)>;
  /// Reads main.input and fills the rest of `main` and `saved`, logits included.
  void forward(std::uint32_t microbatch, OutputActivations& main, States& saved, const NoteRouting& note);
  /// Losses of the modules, summed over the tokens, are added to `sums`; leaves the gradients of the logits.
  void loss(std::uint32_t microbatch, States& saved, std::vector<NumberSum>& sums) const;
  /// As OutputEnd's. `defers_output`: all but the output layer's weight gradient, which
  /// output_backward_weight computes.
  void backward(std::uint32_t microbatch, OutputActivations& main, States& saved,
                const OutputEnd::Place& gradient, bool defers_output);
  void backward_input(std::uint32_t microbatch, OutputActivations& main, States& saved,
                      const OutputEnd::Place& gradient);
  void backward_weight(OutputActivations& main, States& saved);
  void output_backward_weight(OutputActivations& main, States& saved) const;

 private:
  /// A module's parameters besides its layer's.
  struct Ends {
    const Parameter* join;                     // (h/t, 2h), in the layer's unit
    Matrix embedding_norm, hidden_norm, norm;  // of embedded tokens, of hidden states, after the layer
    Matrix embedding_norm_gradient, hidden_norm_gradient, norm_gradient;
  };

  void join(std::size_t module, const Matrix& unit_row, const Matrix& hidden, ModuleActivations& saved) const;
  /// Gradients towards the output layer's inputs, that of the model first.
  std::vector<Tensor> norm_gradients(std::uint32_t microbatch, OutputActivations& main, States& saved) const;
  void output_weight_gradient(OutputActivations& main, States& saved) const;
  LayerWeights layer_again(std::uint32_t microbatch, std::size_t module, ModuleActivations& saved) const;
  Tensor pair_gradient(std::size_t module, const Matrix& all_rows, const Matrix& unit_row) const;
  void join_weight_gradient(std::size_t module, const Matrix& all_rows, ModuleActivations& saved) const;
  void inputs_backward(std::uint32_t microbatch, std::size_t module, Tensor pair, const Matrix& hidden,
                       const Matrix& hidden_gradient, ModuleActivations& saved, Tensor stream) const;
  /// Place of the dropout of its looked-up tokens.
  std::int64_t embedding_site(std::size_t module) const;
  /// Columns of the stream that this tensor rank makes.
  Matrix own_columns(const Matrix& all) const;

  RankResources& rank_;
  const OutputEnd& output_;
  InputEnd embedding_;
  std::vector<Layer> layers_;
  std::vector<Ends> ends_;
};

}  // namespace plumbline::training
