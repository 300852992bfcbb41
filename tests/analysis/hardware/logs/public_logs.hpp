// Lines of public logs of nccl-tests and others, each with its address: a few sizes of each, for their forms.
#pragma once

namespace plumbline::public_logs {

/// 72 GB200 of one NVLink domain; the log names its last rank only.
/// https://github.com/coreweave/nccl-tests/pull/43
inline constexpr const char* kGb200 =
    R"(#  Rank 71 Group  0 Pid  14840 on slurm-gb200-207-171 device  3 [0x01] NVIDIA Graphics Device
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
   536870912     134217728     float     sum      -1   1806.7  297.16  586.06      0   1835.9  292.43  576.74      0
  1073741824     268435456     float     sum      -1   3108.8  345.38  681.17      0   2924.7  367.13  724.06      0
  2147483648     536870912     float     sum      -1   5589.1  384.22  757.78      0   5474.6  392.26  773.62      0
  4294967296    1073741824     float     sum      -1    10094  425.49  839.16      0    10141  423.54  835.32      0
  8589934592    2147483648     float     sum      -1    20299  423.16  834.57      0    20006  429.37  846.82      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 745.53 
)";

/// sendrecv_perf between two A40 of two hosts: sums in name only, nothing checked in place.
/// https://github.com/NVIDIA/nccl-tests/issues/214
inline constexpr const char* kA40 =
    R"(# nThread 1 nGpus 1 minBytes 256 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid 1478709 on      gpu23 device  0 [0x31] NVIDIA A40
#  Rank  1 Group  0 Pid 1171742 on      gpu24 device  0 [0x31] NVIDIA A40
#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
         256            64     float     sum      -1    34.24    0.01    0.01      0    33.65    0.01    0.01    N/A
         512           128     float     sum      -1    34.24    0.01    0.01      0    34.15    0.01    0.01    N/A
        1024           256     float     sum      -1    34.24    0.03    0.03      0    31.11    0.03    0.03    N/A
        2048           512     float     sum      -1    31.58    0.06    0.06      0    31.33    0.07    0.07    N/A
        4096          1024     float     sum      -1    30.74    0.13    0.13      0    30.69    0.13    0.13    N/A
)";

/// 8 hosts of 8 V100, 100 Gbit/s: columns before 2022, without a root; an all-to-all without an operation.
/// https://github.com/NVIDIA/nccl-tests/issues/78
inline constexpr const char* kV100 =
    R"(mpirun -np 64 ./build/all_reduce_perf
#
#                                                       out-of-place                       in-place          
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)  
   268435456      67108864     float     sum   122131    2.20    4.33  2e-06   122165    2.20    4.33  2e-06
   536870912     134217728     float     sum   244833    2.19    4.32  2e-06   244844    2.19    4.32  2e-06
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 4.32178 
mpirun -np 64 ./build/alltoall_perf
#
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)  
   268435456       1048576     float           520935    0.52    0.51  0e+00   519562    0.52    0.51  1e+00
   536870912       2097152     float          1041974    0.52    0.51  0e+00  1041299    0.52    0.51  1e+00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.507636 
)";

/// broadcast_perf over TCP between two V100 of two hosts: a root, no operation, nothing checked.
/// https://github.com/NVIDIA/nccl-tests/issues/82
inline constexpr const char* kBroadcast =
    R"(mpirun -np 2 --host 10.0.0.48:1,10.0.0.52:1 ./build/broadcast_perf -b 8 -e 2G -w 10 -f 2 -g 1 -n 100 -c 0
# nThread 1 nGpus 1 minBytes 8 maxBytes 2147483648 step: 2(factor) warmup iters: 10 iters: 100 validation: 0 
#
# Using devices
#   Rank  0 Pid  14926 on v100-gpu-1 device  0 [0x00] Tesla V100-PCIE-16GB
#   Rank  1 Pid   9210 on v100-gpu-5 device  0 [0x00] Tesla V100-PCIE-16GB

v100-gpu-1:14926:14926 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]
NCCL version 2.9.6+cuda11.2
#
#                                                     out-of-place                       in-place          
#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
           8             2   float       0    45.82    0.00    0.00    N/A    38.17    0.00    0.00    N/A
)";

/// Two H100 PCIe with an NVLink bridge.
/// https://github.com/NVIDIA/nccl/issues/1161
inline constexpr const char* kH100Pair =
    R"(./nccl-tests/build/all_reduce_perf -b 1G -e 8G -f 2 -g 2
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
  1073741824     268435456     float     sum      -1   9306.7  115.37  115.37      0   9291.5  115.56  115.56      0
  2147483648     536870912     float     sum      -1    18535  115.86  115.86      0    18524  115.93  115.93      0
)";

/// rccl-tests on 8 MI300X of one host.
/// https://github.com/crickett-hpe/hpc-ai-envs/pull/30
inline constexpr const char* kMi300x =
    R"(# nThread 1 nGpus 8 minBytes 8388608 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
rccl-tests: Version develop:83d38d9
# Using devices
#  Rank  0 Group  0 Pid  37300 on   g100n126 device  0 [0000:05:00] AMD Instinct MI300X
#  Rank  1 Group  0 Pid  37300 on   g100n126 device  1 [0000:33:00] AMD Instinct MI300X
#  Rank  2 Group  0 Pid  37300 on   g100n126 device  2 [0000:53:00] AMD Instinct MI300X
#  Rank  3 Group  0 Pid  37300 on   g100n126 device  3 [0000:65:00] AMD Instinct MI300X
#  Rank  4 Group  0 Pid  37300 on   g100n126 device  4 [0000:85:00] AMD Instinct MI300X
#  Rank  5 Group  0 Pid  37300 on   g100n126 device  5 [0000:ad:00] AMD Instinct MI300X
#  Rank  6 Group  0 Pid  37300 on   g100n126 device  6 [0000:cd:00] AMD Instinct MI300X
#  Rank  7 Group  0 Pid  37300 on   g100n126 device  7 [0000:e7:00] AMD Instinct MI300X
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
     8388608       2097152     float     sum      -1    91.10   92.08  161.14      0    94.94   88.36  154.63      0
)";

/// Labelled by the launcher, also in the middle of lines.
/// https://github.com/NVIDIA/nccl/issues/1453
inline constexpr const char* kLabelled =
    R"([0]      1048576        262144     float     sum      -1[0]    1626.5    0.64    1.24      0[0]    2302.3    0.46    0.87      0
[0]      4194304       1048576     float     sum      -1[0]     622.6    6.74   12.91      0[0]     625.8    6.70   12.85      0
[0]     33554432       8388608     float     sum      -1[0]    2180.1   15.39   29.50      0[0]    2285.2   14.68   28.14      0
)";

/// osu_bw between two A100 with four NVLinks.
/// https://github.com/EESSI/software-layer/pull/716
inline constexpr const char* kOsuBandwidth =
    R"($ mpirun -np 2 osu_bw -d cuda -m 33554432 D D
# OSU MPI-CUDA Bandwidth Test v7.2
# Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
# Size      Bandwidth (MB/s)
# Datatype: MPI_CHAR.
1                       1.01
1048576             73675.19
2097152             82905.64
33554432            93130.52
)";

/// osu_mbw_mr of 48 pairs.
/// https://github.com/aws/aws-parallelcluster/pull/7035
inline constexpr const char* kOsuPairs =
    R"(# OSU MPI Multiple Bandwidth / Message Rate Test v5.7.1
# [ pairs: 48 ] [ window size: 64 ]
# Size                  MB/s        Messages/s
1                      58.09       58086503.51
4096               168173.26
)";

/// ib_write_bw in Gb/s. https://github.com/linux-rdma/perftest/issues/273
inline constexpr const char* kWriteBandwidth =
    R"(                    RDMA_Write Post List BW Test
 Dual-port       : OFF		Device         : ib0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 8          224958464        0.00               0.48   		   7.498617
---------------------------------------------------------------------------------------
)";

}  // namespace plumbline::public_logs
