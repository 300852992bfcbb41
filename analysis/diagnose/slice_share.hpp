// Category of an operator, a kernel or a collective, by its name and its arguments.
#pragma once

#include <optional>
#include <string_view>

#include "analysis/diagnose/time_share.hpp"
#include "analysis/diagnose/traces/profile_trace.hpp"

namespace plumbline {

/// Sizes of a configuration, which tell groups without a description apart; 0: not known.
struct GroupSizes {
  int tensor = 0, context = 0, expert = 0, pipeline = 0, data = 0;
};

/// Work of an operator or annotation on the host: product, attention, optimizer, loading, or other; nothing
/// for an annotation without a meaning here.
std::optional<TimeShare> share_of_host(std::string_view name, SliceKind kind);
/// True for a collective or message by its name: gloo:all_reduce, c10d::allreduce_, ncclDevKernel_AllReduce.
bool is_communication(std::string_view name);
/// Work of a kernel by its name, and by the operator that launched it, where that is known.
TimeShare share_of_kernel(std::string_view kernel, std::optional<TimeShare> launched_by);

/// tensor, pipeline, data or unknown, by the group's description, else by its ranks and sizes, else by the
/// kind of collective. `message`: nothing where the trace has no arguments.
TimeShare share_of_message(const ProfileTrace& trace, std::string_view name, const TracedMessage* message,
                           const GroupSizes& sizes);
/// True for a send or a receive.
bool is_point_to_point(std::string_view name, std::string_view collective);
/// True for a call in which the host waits for the device.
bool is_synchronisation(std::string_view name);

/// Bytes per element of PyTorch's types; 0: unknown.
int bytes_of_dtype(std::string_view dtype);

}  // namespace plumbline
