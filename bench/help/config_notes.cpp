#include "bench/help/config_notes.hpp"

#include <algorithm>

namespace plumbline {

const std::vector<ConfigNote>& config_notes() {
  static const std::vector<ConfigNote> kNotes = {
      {"model", "Model and hardware", "What is trained"},
      {"hardware", "Model and hardware", "What it is trained on; without it this machine"},
      {"backend", "Model and hardware",
       "How `run` executes: oneDNN and MPI, CUDA and NCCL, or the time and memory of `hardware` without "
       "arithmetic"},
      {"memory_budget", "Model and hardware", "Memory that a rank may use"},

      {"world_size", "Parallel sizes", "Ranks in all; follows from the sizes below when left out"},
      {"tensor_model_parallel_size", "Parallel sizes", "Ranks that share every layer"},
      {"pipeline_model_parallel_size", "Parallel sizes", "Ranks with a part of the layers each"},
      {"data_parallel_size", "Parallel sizes", "Replicas of the model, each with a part of the batch"},
      {"context_parallel_size", "Parallel sizes", "Ranks that share every sequence"},
      {"expert_model_parallel_size", "Parallel sizes", "Ranks that share the experts of a mixture"},
      {"sequence_parallel", "Parallel sizes", "Cut norms and residuals over the tensor-parallel ranks"},
      {"vocab_parallel", "Parallel sizes",
       "Cut the embedding and the output layer over the pipeline, with one barrier (vocab-2) or two "
       "(vocab-1)"},
      {"zero_stage", "Parallel sizes",
       "What the data-parallel replicas share: 1 optimizer states, 2 gradients too, 3 parameters too"},

      {"pipeline_schedule", "Pipeline", "The order of forwards and backwards; see `plumbline help schedule`"},
      {"layer_distribution", "Pipeline", "Which layers each stage has"},
      {"virtual_pipeline_chunks", "Pipeline",
       "Model chunks per pipeline rank; 1: as many as the schedule has by itself"},

      {"seq_length", "Batch", "Tokens per sequence"},
      {"micro_batch_size", "Batch", "Sequences that go through the pipeline together"},
      {"global_batch_size", "Batch", "Sequences per step, over all replicas"},

      {"precision", "Training step",
       "Of weights in use and activations; the optimizer keeps fp32 beside 16 bit. fp8: linear layers in 8 "
       "bits"},
      {"fp8_format", "Training step",
       "Linear layers in eight bits: inputs and weights in E4M3, gradients in E4M3 (e4m3) or E5M2 (hybrid)"},
      {"fp8_recipe", "Training step",
       "Where their scales come from: the largest values of earlier steps (delayed) or of the tensor itself"},
      {"fp8_margin", "Training step", "The scales leave room for so many doublings"},
      {"fp8_amax_history_len", "Training step", "Steps that a delayed scale looks back on"},
      {"grad_dtype", "Training step", "Of accumulated gradients: fp32, or the same as `precision`"},
      {"attention_backend", "Training step",
       "Unfused attention keeps the probabilities of every head for the backward"},
      {"hidden_dropout", "Training step",
       "Probability of dropping what embedding, attention and MLP add to the residual stream"},
      {"attention_dropout", "Training step", "Probability of dropping an attention probability"},
      {"cross_entropy_loss_fusion", "Training step",
       "Whether the loss works on the logits themselves instead of an fp32 copy of 16-bit ones"},
      {"recompute_granularity", "Training step",
       "What the backward computes again instead of keeping it: attention (selective) or whole layers "
       "(full)"},
      {"recompute_num_layers", "Training step",
       "With full recomputation: layers of which only the first input is kept"},
      {"optimizer", "Training step",
       "What turns gradients into weights; decides how many states a parameter has"},
      {"learning_rate", "Training step", "Of the optimizer"},
      {"weight_decay", "Training step", "Of the optimizer"},
      {"clip_grad", "Training step", "Largest norm of all gradients together; 0: no clipping"},
      {"make_vocab_size_divisible_by", "Training step",
       "The vocabulary is padded to a multiple of this times the tensor parallel size"},
      {"ddp_bucket_size", "Training step", "Gradient elements that are reduced together"},

      {"steps", "Measurement", "Steps that are timed"},
      {"warmup_steps", "Measurement", "Steps before that"},
      {"timeout_s", "Measurement", "Seconds after which the ranks are stopped"},
      {"emulated_time_factor", "Measurement",
       "Backend emulated: seconds that pass for each second of the hardware; 0: none, only memory is "
       "measured"},
      {"seed", "Measurement", "Of weights and tokens"},

      {"weights", "Files", "A checkpoint to start from; without it seeded random weights"},
      {"data", "Files", "Tokens to train on; without it seeded random ones"},
      {"save_gradients", "Files", "Where to write the last step's whole gradients, as safetensors"},
      {"save_weights", "Files", "Where to write the weights afterwards, as a Hugging Face checkpoint"},

      {"teacher", "Distillation", "A larger model whose outputs the model learns; it is only evaluated"},
      {"teacher_weights", "Distillation", "The teacher's checkpoint"},
      {"distillation_schedule", "Distillation", "When the teacher's forwards run"},
      {"distillation_temperature", "Distillation", "What both outputs are divided by before the divergence"},
      {"distillation_kl", "Distillation", "KL(teacher || student), or the other way round"},
      {"distillation_lm_weight", "Distillation",
       "Share of the language-model loss; the divergence has the rest of 1"},
      {"distillation_loss", "Distillation",
       "Compute the loss in place, or through the fp32 tensors of eager code"},
      {"distillation_cache", "Distillation",
       "What is kept of a teacher's output until the loss: its logits or its input"},
      {"distillation_cache_dtype", "Distillation", "Of the logits that are kept"},
      {"distillation_cache_limit", "Distillation", "bubble-fill: teacher outputs that may be kept at once"},
      {"loss_mask", "Files", "One 0 or 1 per token of `data`: which of them count in the loss"},
  };
  return kNotes;
}

const ConfigNote* find_config_note(std::string_view key) {
  const auto& notes = config_notes();
  const auto found =
      std::find_if(notes.begin(), notes.end(), [key](const ConfigNote& note) { return note.key == key; });
  return found == notes.end() ? nullptr : &*found;
}

}  // namespace plumbline
