NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --tuner_type adalora --adalora_init_r 6 --deepspeed ds.json --sequence_parallel_size 4
: {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 0.5}, "offload_param": {"device": "cpu"}}}
