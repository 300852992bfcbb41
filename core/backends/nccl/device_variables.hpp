// Environment variables that CUDA reads once, when a process makes its context.
#pragma once

#include <string>

namespace plumbline {

inline constexpr const char* kQueuesVariable = "CUDA_DEVICE_MAX_CONNECTIONS";
inline constexpr const char* kQueues = "32";  // the most that CUDA 13's programming guide names

/// Gives the process as many hardware queues as the device has (CUDA_DEVICE_MAX_CONNECTIONS 32), whatever the
/// environment says: launch scripts for Megatron set 1, with which a product waits behind a message that
/// nobody has received. A communicator has three streams, so that more than ten share queues even then; order
/// of messages: nccl_messages.cpp. To be called before the first call of CUDA. Returns a note for the user
/// where another number was set, else "".
std::string use_all_queues();

}  // namespace plumbline
