// The calls of NCCL that the communicator makes, between processes of one host. As a non-blocking
// communicator does, every call answers "in progress" first.
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/core/backends/fake_gpu/shared_comm.hpp"
#include "tests/core/backends/fake_gpu/streams.hpp"

namespace {

using plumbline::fake::Meeting;
using plumbline::fake::Place;
using plumbline::fake::SharedComm;
using plumbline::fake::Stream;
using plumbline::fake::submit;

SharedComm* of(ncclComm_t comm) {
  return reinterpret_cast<SharedComm*>(comm);
}
Stream* of(cudaStream_t stream) {
  return reinterpret_cast<Stream*>(stream);
}

std::size_t size_of(ncclDataType_t type) {
  return type == ncclFloat32 || type == ncclInt32 ? 4 : 2;
}

template <class T>
void reduce(const Meeting& all, int members, std::size_t count, ncclRedOp_t op, std::byte* out) {
  auto* result = reinterpret_cast<T*>(out);
  for (std::size_t i = 0; i < count / sizeof(T); ++i) {
    T value = reinterpret_cast<const T*>(all.area[0])[i];
    for (int member = 1; member < members; ++member) {
      const T other = reinterpret_cast<const T*>(all.area[member])[i];
      value = op == ncclSum ? value + other : std::max(value, other);
    }
    result[i] = value;
  }
}

void reduce(const Meeting& all, int members, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
            std::byte* out) {
  if (type == ncclFloat32) {
    reduce<float>(all, members, count, op, out);
  } else {
    reduce<std::int32_t>(all, members, count, op, out);
  }
}

bool on_device(const void* data) {
  cudaPointerAttributes found{};
  (void)cudaPointerGetAttributes(&found, data);
  return found.type == cudaMemoryTypeDevice;
}

/// In one queue of the device, or with NCCL_LAUNCH_ORDER_IMPLICIT, a kernel waits for the start of the one
/// launched before it.
std::function<void()> in_launch_order(std::function<void()> work) {
  static std::shared_ptr<Place> last;
  const char* ordered = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  const bool implicit = ordered != nullptr && std::strcmp(ordered, "1") == 0;
  if (!implicit && !plumbline::fake::one_queue()) return work;
  const auto before = std::exchange(last, std::make_shared<Place>());
  return [before, started = last, work = std::move(work)] {
    if (before) before->wait();
    started->reach();
    work();
  };
}

/// Refuses host memory, which NCCL's kernels cannot use.
ncclResult_t enqueue(const char* name, ncclComm_t comm, cudaStream_t stream, const void* from, const void* to,
                     std::function<void(SharedComm&)> work) {
  if (!on_device(from) || !on_device(to)) return ncclInvalidArgument;
  ++plumbline::fake::calls_made()[name];
  ++of(comm)->under_way;
  submit(of(stream), in_launch_order([comm, work = std::move(work)] {
           if (plumbline::fake::stalls()) {
             of(comm)->wait_for_abort();
           } else {
             work(*of(comm));
           }
           --of(comm)->under_way;
         }));
  return ncclInProgress;
}

/// Communicators that the thread's open group aborts, and its messages: at most one from and to every member,
/// at least one in all.
thread_local bool group_is_open = false;
thread_local std::vector<ncclComm_t> aborted_in_group;
template <class Pointer>
struct Piece {
  Pointer data;
  std::size_t size;
};
struct GroupedMessages {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::map<int, Piece<const std::byte*>> sent;
  std::map<int, Piece<std::byte*>> received;
};
thread_local GroupedMessages grouped;

/// Moves the next pieces of messages as far as `move` can. True when all are through.
template <class Pointer, class Move>
bool move_pieces(const std::map<int, Piece<Pointer>>& messages, std::map<int, std::size_t>& moved,
                 const Move& move) {
  bool through = true;
  for (const auto& [peer, piece] : messages) {
    std::size_t& at = moved[peer];
    const std::size_t count = std::min(plumbline::fake::kMailBytes, piece.size - at);
    if (count > 0 && move(peer, piece.data + at, count, piece.size)) at += count;
    through = through && at == piece.size;
  }
  return through;
}

/// A member's messages, all at once; those without any do not call it.
void exchange_grouped(const GroupedMessages& own, SharedComm& shared) {
  std::map<int, std::size_t> sent, received;
  while (!shared.aborted()) {
    const bool out = move_pieces(own.sent, sent, [&](auto... piece) { return shared.put(piece...); });
    const bool in = move_pieces(own.received, received, [&](auto... piece) { return shared.take(piece...); });
    if (out && in) return;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

/// Waits for operations still in streams, as NCCL does before it frees a communicator.
void reclaim(ncclComm_t comm) {
  while (of(comm)->under_way > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::byte* bytes(void* data) {
  return static_cast<std::byte*>(data);
}
const std::byte* bytes(const void* data) {
  return static_cast<const std::byte*>(data);
}

}  // namespace

std::map<std::string, int>& plumbline::fake::most_blocks() {
  static std::map<std::string, int> most;
  return most;
}

bool& plumbline::fake::stalls() {
  static bool all = false;
  return all;
}

bool& plumbline::fake::one_queue() {
  static bool one = false;
  return one;
}

std::map<std::string, int>& plumbline::fake::calls_made() {
  static std::map<std::string, int> made;
  return made;
}

plumbline::fake::Registration& plumbline::fake::registration() {
  static Registration one;
  return one;
}

namespace {

struct Registered {
  ncclComm_t comm;
  const void* data;
};
std::vector<std::unique_ptr<Registered>> registered;

void forget(ncclComm_t comm) {
  plumbline::fake::registration().alive -=
      static_cast<int>(std::erase_if(registered, [comm](const auto& one) { return one->comm == comm; }));
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = plumbline::fake::registration().version;
  return ncclSuccess;
}
ncclResult_t ncclMemAlloc(void** data, std::size_t bytes) {
  if (!plumbline::fake::registration().has_memory) return ncclUnhandledCudaError;
  ++plumbline::fake::registration().pieces;
  return cudaMalloc(data, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* data) {
  auto& all = plumbline::fake::registration();
  --all.pieces;
  for (const auto& one : registered) all.faults += one->data == data ? 1 : 0;
  return cudaFree(data) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommRegister(ncclComm_t comm, void* data, std::size_t /*bytes*/, void** handle) {
  auto& all = plumbline::fake::registration();
  *handle = nullptr;
  if (all.allowed-- <= 0) return ncclSystemError;
  if (all.skips) return ncclSuccess;
  for (const auto& one : registered) all.faults += one->comm == comm && one->data == data ? 1 : 0;
  registered.push_back(std::make_unique<Registered>(Registered{comm, data}));
  ++all.alive;
  *handle = registered.back().get();
  return ncclSuccess;
}
ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  const auto gone =
      std::erase_if(registered, [&](const auto& one) { return one.get() == handle && one->comm == comm; });
  auto& all = plumbline::fake::registration();
  all.alive -= static_cast<int>(gone);
  all.faults += gone == 1 ? 0 : 1;
  return gone == 1 ? ncclSuccess : ncclInvalidUsage;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string name = SharedComm::create();
  std::strncpy(id->internal, name.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int members, ncclUniqueId id, int member,
                                    ncclConfig_t* config) {
  // By default NCCL connects at the first call of a kind, where members would wait for each other.
  if (config->blocking != 0 || std::getenv("NCCL_RUNTIME_CONNECT") == nullptr) return ncclInvalidArgument;
  plumbline::fake::most_blocks()[config->commName] = config->maxCTAs;
  *comm = reinterpret_cast<ncclComm_t>(new SharedComm(id.internal, members, member));
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t /*comm*/, ncclResult_t* state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  for (const auto& one : registered) plumbline::fake::registration().faults += one->comm == comm ? 1 : 0;
  return ncclSuccess;
}
// Streams may still hold work of a communicator that is gone: its end stays.
ncclResult_t ncclCommDestroy(ncclComm_t /*comm*/) {
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  of(comm)->abort();
  forget(comm);  // as the real one does
  if (group_is_open) {
    aborted_in_group.push_back(comm);
  } else {
    reclaim(comm);
  }
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  group_is_open = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  group_is_open = false;
  for (const ncclComm_t comm : std::exchange(aborted_in_group, {})) reclaim(comm);
  if (grouped.comm == nullptr) return ncclSuccess;
  const GroupedMessages all = std::exchange(grouped, {});
  const void* sent = all.sent.empty() ? all.received.begin()->second.data : all.sent.begin()->second.data;
  const void* received = all.received.empty() ? sent : all.received.begin()->second.data;
  return enqueue("grouped messages", all.comm, all.stream, sent, received,
                 [all](SharedComm& shared) { exchange_grouped(all, shared); });
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = of(comm)->members();
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t /*result*/) {
  return "fake error";
}
const char* ncclGetLastError(ncclComm_t /*comm*/) {
  return "";
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(__func__, comm, stream, from, to, [=](SharedComm& shared) {
    shared.exchange(
        count * size_of(type),
        [&](std::byte* mine, std::size_t at, std::size_t n) { std::memcpy(mine, bytes(from) + at, n); },
        [&](const Meeting& all, std::size_t at, std::size_t n) {
          reduce(all, shared.members(), n, type, op, bytes(to) + at);
        });
  });
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  const std::size_t size = count * size_of(type);
  return enqueue(__func__, comm, stream, from, to, [=](SharedComm& shared) {
    shared.exchange(
        size, [&](std::byte* mine, std::size_t at, std::size_t n) { std::memcpy(mine, bytes(from) + at, n); },
        [&](const Meeting& all, std::size_t at, std::size_t n) {
          for (int member = 0; member < shared.members(); ++member) {
            std::memcpy(bytes(to) + static_cast<std::size_t>(member) * size + at, all.area[member], n);
          }
        });
  });
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  const std::size_t size = count * size_of(type);
  return enqueue(__func__, comm, stream, from, to, [=](SharedComm& shared) {
    for (int owner = 0; owner < shared.members(); ++owner) {
      const std::byte* piece = bytes(from) + static_cast<std::size_t>(owner) * size;
      shared.exchange(
          size, [&](std::byte* mine, std::size_t at, std::size_t n) { std::memcpy(mine, piece + at, n); },
          [&](const Meeting& all, std::size_t at, std::size_t n) {
            if (owner == shared.member()) reduce(all, shared.members(), n, type, op, bytes(to) + at);
          });
    }
  });
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return enqueue(__func__, comm, stream, from, to, [=](SharedComm& shared) {
    shared.exchange(
        count * size_of(type),
        [&](std::byte* mine, std::size_t at, std::size_t n) {
          if (root == shared.member()) std::memcpy(mine, bytes(from) + at, n);
        },
        [&](const Meeting& all, std::size_t at, std::size_t n) {
          std::memcpy(bytes(to) + at, all.area[root], n);
        });
  });
}

ncclResult_t ncclReduce(const void* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(__func__, comm, stream, from, to, [=](SharedComm& shared) {
    shared.exchange(
        count * size_of(type),
        [&](std::byte* mine, std::size_t at, std::size_t n) { std::memcpy(mine, bytes(from) + at, n); },
        [&](const Meeting& all, std::size_t at, std::size_t n) {
          if (root == shared.member()) reduce(all, shared.members(), n, type, op, bytes(to) + at);
        });
  });
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (group_is_open) {
    grouped.comm = comm;
    grouped.stream = stream;
    grouped.sent[peer] = {bytes(from), count * size_of(type)};
    return ncclInProgress;
  }
  return enqueue(__func__, comm, stream, from, from, [=](SharedComm& shared) {
    shared.exchange(
        count * size_of(type),
        [&](std::byte* mine, std::size_t at, std::size_t n) { std::memcpy(mine, bytes(from) + at, n); },
        [](const Meeting&, std::size_t, std::size_t) {});
  });
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  if (group_is_open) {
    grouped.comm = comm;
    grouped.stream = stream;
    grouped.received[peer] = {bytes(to), count * size_of(type)};
    return ncclInProgress;
  }
  return enqueue(__func__, comm, stream, to, to, [=](SharedComm& shared) {
    shared.exchange(
        count * size_of(type), [](std::byte*, std::size_t, std::size_t) {},
        [&](const Meeting& all, std::size_t at, std::size_t n) {
          std::memcpy(bytes(to) + at, all.area[peer], n);
        });
  });
}

}  // extern "C"
