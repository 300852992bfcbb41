#!/bin/bash
# A launch script of Megatron-LM: Llama 3.1 8B on two nodes of eight GPUs.
GPUS_PER_NODE=8
NODES=2
TP=2

MODEL=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --seq-length 8192 --max-position-embeddings 131072 --position-embedding-type rope
  --swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B
)
PARALLEL=(--tensor-model-parallel-size $TP --sequence-parallel --use-distributed-optimizer)
if [ "$TP" -gt 1 ]; then
  PARALLEL+=(--tp-comm-overlap)
fi

torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NODES pretrain_gpt.py "${MODEL[@]}" "${PARALLEL[@]}" \
  --bf16 --micro-batch-size 1 --global-batch-size 128 --lr 3e-4 --train-iters 1000 --data-path $1
