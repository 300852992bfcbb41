// The shared memory of blocks whose CUDA threads are threads of the host.
#pragma once

namespace plumbline::cuda::host {

constexpr int kBlocksAtOnce = 2;

/// From now on the calling thread is one of this block, 0 to kBlocksAtOnce - 1.
void belong_to_block(int block);
/// Fills the dynamic shared memory of the calling thread's block with NaN.
void poison_dynamic_shared();

}  // namespace plumbline::cuda::host
