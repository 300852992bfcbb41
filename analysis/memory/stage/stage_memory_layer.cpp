// A layer's forward and backward. In FP8 (bench/training/fp8.md) operands of products are quantized where
// they are made; in the storage type these tensors have no bytes.
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// Computes the gradient of a block's result from that of its norm or of what dropout left of it.
void StageReplay::drop_gradient(Category category) {
  take(category, bytes_.stream.dropped);
  give(kActivations, bytes_.stream.mask + bytes_.stream.result + bytes_.stream.result_statistics);
}

/// As the products read it: quantized, then gathered.
void StageReplay::take_stream_gradient() {
  take(kWorkspace, bytes_.stream.quantized);
  gather_operand();
}
void StageReplay::give_stream_gradient() {
  release_operand();
  give(kWorkspace, bytes_.stream.quantized);
}

/// A forward product.
void StageReplay::use_weight(const ProductBytes& product) {
  take(kWorkspace, product.weight);
  give(kWorkspace, product.weight);
}

/// A forward product whose tensor ranks hold partial sums.
void StageReplay::sum_over_tensor_ranks(const ProductBytes& product, Adapted which) {
  take(kWorkspace, product.weight);
  sum_over_tensor_ranks(features(which));
  give(kWorkspace, product.weight);
}

void StageReplay::input_gradient(const ProductBytes& product) {
  take(kWorkspace, product.weight);  // transposed
  give(kWorkspace, product.weight);
}

void StageReplay::summed_input_gradient(const ProductBytes& product) {
  take(kWorkspace, product.weight);
  sum_over_tensor_ranks();
  give(kWorkspace, product.weight);
}

void StageReplay::weight_gradient(const ProductBytes& product) {
  take(kWorkspace, product.transposed);
  give(kWorkspace, product.transposed);
}

/// The input gradient of a frozen product that reads the stream, if its input has one, and its adapter's
/// gradients.
void StageReplay::frozen_gradients(Adapted which, bool input) {
  if (!adapted(which) && input) sum_over_tensor_ranks();
  if (!adapted(which)) return;
  take(kWorkspace, features(which));
  if (input) sum_over_tensor_ranks();
  gather_operand();
  give(kWorkspace, features(which));
  adapter(which);
  release_operand();
}

/// Both gradients of a product that reads the stream.
void StageReplay::both_gradients(const ProductBytes& product, Adapted which, bool input) {
  if (s_.adapters.own) return frozen_gradients(which, input);
  if (!s_.overlap.tensor) {
    summed_input_gradient(product);
    gather_operand();
    weight_gradient(product);
    return release_operand();
  }
  // Its input travels during the input gradient, the sums during the weight gradient.
  gather_operand();
  take(kWorkspace, bytes_.stream.partial);
  take(kWorkspace, product.weight);
  give(kWorkspace, product.weight);
  take(kWorkspace, bytes_.stream.piece);
  weight_gradient(product);
  give(kWorkspace, bytes_.stream.piece);
  give(kWorkspace, bytes_.stream.partial);
  release_operand();
}

/// A norm and the kept part of its output.
void StageReplay::layer_norm() {
  take(kWorkspace, bytes_.stream.wide_norm_output);
  take(kept_, bytes_.stream.input_statistics);
  take(kept_, bytes_.stream.norm_output);
  give(kWorkspace, bytes_.stream.wide_norm_output);
}

/// The second one of a layer, which an MoE layer's router and experts read unquantized.
void StageReplay::second_norm() {
  if (!experts_) return layer_norm();
  take(kept_, second_norm_output());
  take(kept_, bytes_.stream.input_statistics);
}

/// From the first norm to the activation output.
void StageReplay::layer_forward(bool again) {
  layer_norm();
  if (s_.attention.latent()) {
    latent_forward();
  } else {
    gather_operand();
    take(kept_, bytes_.attention.qkv);
    use_weight(bytes_.attention.qkv_product);
    adapter(kQkv);
    release_operand();
    take(kept_, bytes_.attention.normed);
  }
  exchange_heads();
  take(kept_, bytes_.attention.output);
  take(kept_, bytes_.attention.lse);
  attention_forward();
  take(kept_, bytes_.stream.tensor);  // x2
  take(kWorkspace, bytes_.attention.quantized_output);
  take(kept_, bytes_.stream.result);
  sum_over_tensor_ranks(bytes_.attention.projection_product, kProjection);
  give(kWorkspace, bytes_.attention.quantized_output);
  take(kept_, bytes_.stream.mask + bytes_.stream.result_statistics);
  drop_attention_block();
  if (s_.block.norms() > 1) second_norm();
  if (experts_) return mixture_forward(again);
  mlp_forward();
}

/// fc1 and activation.
void StageReplay::mlp_forward() {
  gather_operand();
  take(kept_, bytes_.mlp.fc1);
  use_weight(bytes_.mlp.fc1_product);
  adapter(kFc1);
  release_operand();
  take(kWorkspace, bytes_.mlp.wide_activation_output);
  take(kept_, bytes_.mlp.activation_output);
  give(kWorkspace, bytes_.mlp.wide_activation_output);
}

/// y, in a tensor of its own or in the send buffer.
void StageReplay::layer_output(bool into_send_buffer) {
  if (!into_send_buffer) take(kept_, bytes_.stream.tensor);
  take(kept_, bytes_.stream.result);
  if (experts_) {
    mixture_output();
  } else {
    sum_over_tensor_ranks(bytes_.mlp.fc2_product, kFc2);
  }
  take(kept_, bytes_.stream.mask + bytes_.stream.result_statistics);
  if (s_.block.parallel()) give(kept_, bytes_.stream.tensor);  // x2
  drop_feed_forward();
}

/// All that a layer's forward allocates but y.
std::int64_t StageReplay::kept_by_layer() const {
  const std::int64_t second_norm = s_.block.norms() > 1 ? second_norm_output() : 0;
  return (s_.block.parallel() ? 0 : bytes_.stream.tensor) + bytes_.stream.norm_output + second_norm +
         s_.block.norms() * bytes_.stream.input_statistics +
         2 * (bytes_.stream.mask + bytes_.stream.result + bytes_.stream.result_statistics) +
         bytes_.attention.qkv + bytes_.attention.normed + bytes_.attention.output + bytes_.attention.lse +
         bytes_.moe.routing + bytes_.mlp.fc1 + bytes_.mlp.activation_output + bytes_.shared.weights +
         bytes_.shared.fc1 + bytes_.moe.kept_rows + bytes_.moe.orders + bytes_.moe.row_weights +
         bytes_.shared.activation_output + 2 * bytes_.latent.compressed + bytes_.latent.statistics;
}

/// From the gradient of the MLP's output to that of its input, which stays.
/// `input`: its input has a gradient.
void StageReplay::mlp_backward(bool input) {
  take_stream_gradient();
  take(kWorkspace, bytes_.mlp.activation);  // dact
  input_gradient(bytes_.mlp.fc2_product);
  first_gradient_of(layer_unit_);
  weight_gradient(bytes_.mlp.fc2_product);
  adapter(kFc2);
  give_stream_gradient();
  give(kWorkspace, bytes_.stream.dropped);
  give(kActivations, bytes_.mlp.activation_output);
  if (s_.mlp.swiglu) {
    take(kWorkspace, bytes_.mlp.fc1);  // dfc1; with GELU dact becomes dfc1, which is as large
    give(kWorkspace, bytes_.mlp.activation);
  }
  give(kActivations, bytes_.mlp.fc1);
  take(kWorkspace, bytes_.mlp.quantized_fc1);
  if (input) take(kWorkspace, bytes_.stream.tensor);  // dn
  both_gradients(bytes_.mlp.fc1_product, kFc1, input);
  give(kWorkspace, bytes_.mlp.quantized_fc1 + bytes_.mlp.fc1);
  if (s_.block.norms() > 1) give(kActivations, bytes_.stream.norm_output);  // of the second norm
}

void StageReplay::layer_backward(std::int64_t layer) {
  const bool lowest = is_lowest(layer);
  feed_forward_again();
  drop_gradient(kWorkspace);
  if (experts_) {
    mixture_backward();
  } else {
    mlp_backward(!lowest || !s_.block.parallel());
  }
  if (!s_.block.parallel()) {
    give(kWorkspace, bytes_.stream.tensor);
    give(kActivations,
         bytes_.stream.tensor + bytes_.stream.input_statistics);  // x2 and the second norm's statistics
  }
  attention_block_again();
  drop_gradient(kWorkspace);
  take_stream_gradient();
  take(kWorkspace, bytes_.attention.output);  // dattn
  input_gradient(bytes_.attention.projection_product);
  take(kWorkspace, bytes_.attention.quantized_output);
  weight_gradient(bytes_.attention.projection_product);
  adapter(kProjection);
  give(kWorkspace, bytes_.attention.quantized_output);
  give_stream_gradient();
  give(kWorkspace, bytes_.stream.dropped);
  take(kWorkspace, bytes_.attention.qkv);  // dqkv
  attention_backward();
  give(kWorkspace, bytes_.attention.output);
  give(kActivations,
       bytes_.attention.output + bytes_.attention.lse + bytes_.attention.qkv + bytes_.attention.normed);
  if (s_.attention.latent()) {
    latent_input_gradient(kWorkspace);
    latent_compression_weight();
    give(kWorkspace, bytes_.latent.compressed);
  } else {
    take(kWorkspace, bytes_.attention.quantized_qkv);
    if (!lowest) take(kWorkspace, bytes_.stream.tensor);  // dn
    both_gradients(bytes_.attention.qkv_product, kQkv, !lowest);
    give(kWorkspace, bytes_.attention.quantized_qkv + bytes_.attention.qkv);
  }
  give(kActivations, bytes_.stream.norm_output);  // of the first norm
  if (layer == 0 && s_.place.previous_here)
    take(kCommunication, bytes_.stream.tensor);  // the previous stage's G
  if (layer == 0 && joint_before()) {            // a tensor of its own, copied into the message
    take(kWorkspace, bytes_.stream.tensor);
    give(kWorkspace, bytes_.stream.tensor);
  }
  end_of_layer_backward(!lowest);
  give(kActivations, bytes_.stream.tensor);  // x
}

/// Frees what is left, but x, once the gradient of the layer's input exists: dn (`input`: there is such a
/// gradient) and the first norm's statistics. A parallel block also frees the gradient towards the MLP's
/// input and the second norm's statistics.
void StageReplay::end_of_layer_backward(bool input) {
  if (input) give(kWorkspace, (s_.block.parallel() ? 2 : 1) * bytes_.stream.tensor);
  const std::int64_t norms = s_.block.parallel() ? s_.block.norms() : 1;
  give(kActivations, norms * bytes_.stream.input_statistics);
}

}  // namespace plumbline
