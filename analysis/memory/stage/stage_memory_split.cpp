// The backward in two parts: input gradients now, weight gradients later (I and W).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// As mlp_backward without the gradients of matrices.
void StageReplay::mlp_backward_input(bool input) {
  take_stream_gradient();
  take(s_.mlp.swiglu ? kWorkspace : kActivations, bytes_.mlp.activation);  // dact
  input_gradient(bytes_.mlp.fc2_product);
  adapter(kFc2);
  give_stream_gradient();
  if (s_.mlp.swiglu) {
    take(kActivations, bytes_.mlp.fc1);  // dfc1
    give(kWorkspace, bytes_.mlp.activation);
  }
  give(kActivations, bytes_.mlp.fc1);
  take(kWorkspace, bytes_.mlp.quantized_fc1);
  if (input) {
    take(kWorkspace, bytes_.stream.tensor);  // dn
    adapted_input_gradient(bytes_.mlp.fc1_product, kFc1);
  }
  give(kWorkspace, bytes_.mlp.quantized_fc1);
}

/// For a product that reads the stream.
void StageReplay::adapted_input_gradient(const ProductBytes& product, Adapted which) {
  take(kWorkspace, features(which));
  summed_input_gradient(product);
  give(kWorkspace, features(which));
}

void StageReplay::layer_backward_input(std::int64_t layer) {
  const bool lowest = is_lowest(layer);
  // With dropout the weight gradients need its result of dy and dmid, which are then freed.
  const bool received = layer == s_.layers - 1 && !s_.place.last;
  feed_forward_again();
  drop_gradient(kActivations);
  if (experts_) {
    mixture_backward_input();
  } else {
    mlp_backward_input(!lowest || !s_.block.parallel());
  }
  if (!s_.block.parallel()) {
    take(kActivations, bytes_.stream.tensor);  // dmid
    give(kWorkspace, bytes_.stream.tensor);
    if (!second_reads_stream()) give(kActivations, bytes_.stream.tensor);  // x2, which else W reads
    give(kActivations, bytes_.stream.input_statistics);                    // of the second norm
  }
  const Category dy = received ? kCommunication : kActivations;
  if (!s_.block.parallel()) give(dy, bytes_.stream.dropped);
  attention_block_again();
  drop_gradient(kActivations);
  const Category middle = s_.block.parallel() ? dy : kActivations;  // of dy or dmid
  if (lowest) give(middle, bytes_.stream.dropped);
  take_stream_gradient();
  take(kWorkspace, bytes_.attention.output);  // dattn
  input_gradient(bytes_.attention.projection_product);
  adapter(kProjection);
  give_stream_gradient();
  take(kActivations, bytes_.attention.qkv);  // dqkv
  attention_backward();
  give(kWorkspace, bytes_.attention.output);
  give(kActivations, bytes_.attention.lse + bytes_.attention.qkv + bytes_.attention.normed);
  if (s_.attention.latent()) {
    latent_input_gradient(kActivations);
  } else {
    take(kWorkspace, bytes_.attention.quantized_qkv);
    if (!lowest) {
      take(kWorkspace, bytes_.stream.tensor);  // dn
      adapted_input_gradient(bytes_.attention.qkv_product, kQkv);
    }
    give(kWorkspace, bytes_.attention.quantized_qkv);
  }
  if (layer > 0) {  // dx; a first layer behind another rank writes into the send buffer
    take(kActivations, bytes_.stream.tensor);
  } else if (s_.place.previous_here) {
    take(kCommunication, bytes_.stream.tensor);
  } else if (s_.place.first && !lowest) {
    take(kWorkspace, bytes_.stream.tensor);
  }
  end_of_layer_backward(!lowest);
  if (!reads_stream()) give(kActivations, bytes_.stream.tensor);  // x
  if (!lowest) give(middle, bytes_.stream.dropped);
}

void StageReplay::backward_input() {
  if (s_.ends.defers_output_gradient) return backward();
  if (s_.place.last) {
    if (s_.scores()) {
      output_norm_gradients();
      if (s_.adapters.own) give(Category::logits, bytes_.loss.logits);
      modules_backward(false);
    } else {
      take_output_gradient();
    }
    take_stage_gradient(kActivations);
    give(kWorkspace, bytes_.stream.tensor);
    give(kActivations, bytes_.stream.statistics + bytes_.stream.tensor);           // final input
    if (s_.scores() && s_.adapters.own) give(kActivations, bytes_.stream.tensor);  // final norm output
  }
  layers_backward(false);
  if (s_.place.first) {
    give(kActivations, embedding_mask());  // dx is dropped in place
    embedding_norm_backward(kWorkspace);
  }
  if (s_.embeds() && !s_.adapters.own) {
    embedding_backward();
    give(kWorkspace, bytes_.stream.tensor);  // dx
  } else if (s_.place.first && !s_.embeds()) {
    gather_input_gradient(kWorkspace);  // of dx
  }
  end_of_action();
}

/// For a product whose result is added to the stream, and one that reads it. Frozen ones: their adapters'.
void StageReplay::row_weight_gradient(const ProductBytes& product, Adapted which) {
  take(kWorkspace, bytes_.stream.quantized);
  column_weight_gradient(product, which);
  give(kWorkspace, bytes_.stream.quantized);
}
void StageReplay::column_weight_gradient(const ProductBytes& product, Adapted which) {
  if (s_.adapters.own && !adapted(which)) return;
  gather_operand();
  weight_gradient(product);
  adapter(which);
  release_operand();
}

/// `one`: attention's products read dy, too.
void StageReplay::mlp_backward_weight(Category dy, bool one) {
  first_gradient_of(layer_unit_);
  row_weight_gradient(bytes_.mlp.fc2_product, kFc2);
  give(kActivations, bytes_.mlp.activation_output);
  if (!one) give(dy, bytes_.stream.tensor);  // or dropped
  take(kWorkspace, bytes_.mlp.quantized_fc1);
  column_weight_gradient(bytes_.mlp.fc1_product, kFc1);
  give(kWorkspace, bytes_.mlp.quantized_fc1);
  give(kActivations, bytes_.mlp.fc1);  // dfc1
  if (s_.block.norms() > 1) give(kActivations, block_input());
}

void StageReplay::layer_backward_weight(std::int64_t layer) {
  const bool received = layer == s_.layers - 1 && !s_.place.last && bytes_.stream.dropped == 0;
  const Category dy = received ? kCommunication : kActivations;
  const bool one = s_.block.parallel() && !s_.block.dropout;  // both sums' gradient is dy
  if (experts_) {
    mixture_backward_weight(dy);
  } else {
    mlp_backward_weight(dy, one);
  }
  take(kWorkspace, bytes_.attention.quantized_output);
  row_weight_gradient(bytes_.attention.projection_product, kProjection);
  give(kWorkspace, bytes_.attention.quantized_output);
  give(kActivations, bytes_.attention.output);
  give(one ? dy : kActivations, bytes_.stream.tensor);  // dmid or dropped; of a parallel block dy
  if (s_.attention.latent()) {
    latent_weights();
    give(kActivations, bytes_.attention.qkv + bytes_.latent.compressed);  // dqkv, its source
    take_compression_gradient();
    latent_compression_weight();
    give(kActivations, bytes_.latent.compressed + block_input());
  } else {
    take(kWorkspace, bytes_.attention.quantized_qkv);
    column_weight_gradient(bytes_.attention.qkv_product, kQkv);
    give(kWorkspace, bytes_.attention.quantized_qkv);
    give(kActivations, bytes_.attention.qkv + block_input());  // dqkv, first norm output
  }
}

void StageReplay::backward_weight() {
  if (s_.scores() && !s_.adapters.own) {
    output_weight_gradients();
    give(kActivations, (1 + s_.own_modules()) * bytes_.stream.tensor);  // norm outputs
    gradient_done(output_unit_, final_.output);
    if (!s_.ends.defers_output_gradient) modules_backward_weight();
  }
  const std::int64_t layers = s_.ends.defers_output_gradient ? 0 : s_.layers;
  each(layers, cuts_before(s_.layers), [&](std::int64_t i) {
    at_layer(s_.layers - 1 - i);
    layer_backward_weight(s_.layers - 1 - i);
    layer_gradients_done();
  });
  end_of_action();
}

}  // namespace plumbline
