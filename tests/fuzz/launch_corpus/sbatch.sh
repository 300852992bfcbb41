#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:8
LENGTH=2 sbatch -N 1 --export=ALL,A=b job.sbatch $1 {
srun torchrun -m verl.trainer.fsdp_sft_trainer data.max_length=8 model.partial_pretrain=Qwen/Qwen2.5-0.5B +a.b=c $@
