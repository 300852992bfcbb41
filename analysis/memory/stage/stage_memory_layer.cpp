// A layer's forward and backward. In FP8 (bench/training/fp8.md) operands of products are quantized where
// they are made; in the storage type these tensors have no bytes.
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// Computes the gradient of a block's result from that of its norm or of what dropout left of it.
void StageReplay::drop_gradient(Category category) {
  take(category, bytes_.dropped);
  give(kActivations, bytes_.mask + bytes_.result + bytes_.result_statistics);
}

/// As the products read it: quantized, then gathered.
void StageReplay::take_stream_gradient() {
  take(kWorkspace, bytes_.quantized_stream);
  gather_operand();
}
void StageReplay::give_stream_gradient() {
  release_operand();
  give(kWorkspace, bytes_.quantized_stream);
}

/// A forward product.
void StageReplay::use_weight(const ProductBytes& product) {
  take(kWorkspace, product.weight);
  give(kWorkspace, product.weight);
}

/// A forward product whose tensor ranks hold partial sums.
void StageReplay::sum_over_tensor_ranks(const ProductBytes& product, Adapted which) {
  take(kWorkspace, product.weight);
  sum_over_tensor_ranks(adapted(which) ? bytes_.features : 0);
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
  if (!adapted(which)) return sum_over_tensor_ranks();
  take(kWorkspace, bytes_.features);
  if (input) sum_over_tensor_ranks();
  gather_operand();
  give(kWorkspace, bytes_.features);
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
  take(kWorkspace, bytes_.partial);
  take(kWorkspace, product.weight);
  give(kWorkspace, product.weight);
  take(kWorkspace, bytes_.piece);
  weight_gradient(product);
  give(kWorkspace, bytes_.piece);
  give(kWorkspace, bytes_.partial);
  release_operand();
}

/// A norm and the kept part of its output.
void StageReplay::layer_norm() {
  take(kWorkspace, bytes_.wide_norm_output);
  take(kept_, bytes_.input_statistics);
  take(kept_, bytes_.norm_output);
  give(kWorkspace, bytes_.wide_norm_output);
}

/// The second one of a layer, which an MoE layer's router and experts read unquantized.
void StageReplay::second_norm() {
  if (!experts_) return layer_norm();
  take(kept_, second_norm_output());
  take(kept_, bytes_.input_statistics);
}

/// From the first norm to the activation output.
void StageReplay::layer_forward(bool again) {
  layer_norm();
  if (s_.attention.latent()) {
    latent_forward();
  } else {
    gather_operand();
    take(kept_, bytes_.qkv);
    use_weight(bytes_.qkv_product);
    adapter(kQkv);
    release_operand();
    take(kept_, bytes_.normed);
  }
  exchange_heads();
  take(kept_, bytes_.attention);
  take(kept_, bytes_.lse);
  attention_forward();
  take(kept_, bytes_.stream);  // x2
  take(kWorkspace, bytes_.quantized_attention);
  take(kept_, bytes_.result);
  sum_over_tensor_ranks(bytes_.projection_product, kProjection);
  give(kWorkspace, bytes_.quantized_attention);
  take(kept_, bytes_.mask + bytes_.result_statistics);
  drop_attention_block();
  if (s_.block.norms() > 1) second_norm();
  if (experts_) return mixture_forward(again);
  mlp_forward();
}

/// fc1 and activation.
void StageReplay::mlp_forward() {
  gather_operand();
  take(kept_, bytes_.fc1);
  use_weight(bytes_.fc1_product);
  adapter(kFc1);
  release_operand();
  take(kWorkspace, bytes_.wide_activation_output);
  take(kept_, bytes_.activation_output);
  give(kWorkspace, bytes_.wide_activation_output);
}

/// y, in a tensor of its own or in the send buffer.
void StageReplay::layer_output(bool into_send_buffer) {
  if (!into_send_buffer) take(kept_, bytes_.stream);
  take(kept_, bytes_.result);
  if (experts_) {
    mixture_output();
  } else {
    sum_over_tensor_ranks(bytes_.fc2_product, kFc2);
  }
  take(kept_, bytes_.mask + bytes_.result_statistics);
  if (s_.block.parallel()) give(kept_, bytes_.stream);  // x2
  drop_feed_forward();
}

/// All that a layer's forward allocates but y.
std::int64_t StageReplay::kept_by_layer() const {
  const std::int64_t second_norm = s_.block.norms() > 1 ? second_norm_output() : 0;
  return (s_.block.parallel() ? 0 : bytes_.stream) + bytes_.norm_output + second_norm +
         s_.block.norms() * bytes_.input_statistics +
         2 * (bytes_.mask + bytes_.result + bytes_.result_statistics) + bytes_.qkv + bytes_.normed +
         bytes_.attention + bytes_.lse + bytes_.routing + bytes_.fc1 + bytes_.activation_output +
         bytes_.shared_weights + bytes_.shared_fc1 + bytes_.kept_rows + bytes_.orders + bytes_.row_weights +
         bytes_.shared_activation_output + 2 * bytes_.compressed + bytes_.compressed_statistics;
}

/// From the gradient of the MLP's output to that of its input, which stays.
void StageReplay::mlp_backward() {
  take_stream_gradient();
  take(kWorkspace, bytes_.activation);  // dact
  input_gradient(bytes_.fc2_product);
  first_gradient_of(layer_unit_);
  weight_gradient(bytes_.fc2_product);
  adapter(kFc2);
  give_stream_gradient();
  give(kWorkspace, bytes_.dropped);
  give(kActivations, bytes_.activation_output);
  if (s_.mlp.swiglu) {
    take(kWorkspace, bytes_.fc1);  // dfc1; with GELU dact becomes dfc1, which is as large
    give(kWorkspace, bytes_.activation);
  }
  give(kActivations, bytes_.fc1);
  take(kWorkspace, bytes_.quantized_fc1);
  take(kWorkspace, bytes_.stream);  // dn
  both_gradients(bytes_.fc1_product, kFc1);
  give(kWorkspace, bytes_.quantized_fc1 + bytes_.fc1);
  if (s_.block.norms() > 1) give(kActivations, bytes_.norm_output);  // of the second norm
}

void StageReplay::layer_backward(std::int64_t layer) {
  const bool lowest = s_.adapters.own && s_.place.first && layer == 0;  // its input has no gradient
  feed_forward_again();
  drop_gradient(kWorkspace);
  if (experts_) {
    mixture_backward();
  } else {
    mlp_backward();
  }
  if (!s_.block.parallel()) {
    give(kWorkspace, bytes_.stream);
    give(kActivations, bytes_.stream + bytes_.input_statistics);  // x2 and the second norm's statistics
  }
  attention_block_again();
  drop_gradient(kWorkspace);
  take_stream_gradient();
  take(kWorkspace, bytes_.attention);  // dattn
  input_gradient(bytes_.projection_product);
  take(kWorkspace, bytes_.quantized_attention);
  weight_gradient(bytes_.projection_product);
  adapter(kProjection);
  give(kWorkspace, bytes_.quantized_attention);
  give_stream_gradient();
  give(kWorkspace, bytes_.dropped);
  take(kWorkspace, bytes_.qkv);  // dqkv
  attention_backward();
  give(kWorkspace, bytes_.attention);
  give(kActivations, bytes_.attention + bytes_.lse + bytes_.qkv + bytes_.normed);
  if (s_.attention.latent()) {
    latent_input_gradient(kWorkspace);
    latent_compression_weight();
    give(kWorkspace, bytes_.compressed);
  } else {
    take(kWorkspace, bytes_.quantized_qkv);
    if (!lowest) take(kWorkspace, bytes_.stream);  // dn
    both_gradients(bytes_.qkv_product, kQkv, !lowest);
    give(kWorkspace, bytes_.quantized_qkv + bytes_.qkv);
  }
  give(kActivations, bytes_.norm_output);                                         // of the first norm
  if (layer == 0 && s_.place.previous_here) take(kCommunication, bytes_.stream);  // the previous stage's G
  if (layer == 0 && joint_before()) {  // a tensor of its own, copied into the message
    take(kWorkspace, bytes_.stream);
    give(kWorkspace, bytes_.stream);
  }
  end_of_layer_backward(!lowest);
  give(kActivations, bytes_.stream);  // x
}

/// Frees what is left, but x, once the gradient of the layer's input exists: dn (`input`: there is such a
/// gradient) and the first norm's statistics. A parallel block also frees the gradient towards the MLP's
/// input and the second norm's statistics.
void StageReplay::end_of_layer_backward(bool input) {
  give(kWorkspace, ((s_.block.parallel() ? 1 : 0) + (input ? 1 : 0)) * bytes_.stream);
  const std::int64_t norms = s_.block.parallel() ? s_.block.norms() : 1;
  give(kActivations, norms * bytes_.input_statistics);
}

}  // namespace plumbline
