NGPU=${NGPU:-8}
torchrun --nproc_per_node=${NGPU} -m torchtitan.train --module llama3 --config llama3_8b --training.num_tokens_per_microbatch_per_dp_rank 16384 --training.max_context_length=4096 --training.enable_cpu_offload true "$@"
