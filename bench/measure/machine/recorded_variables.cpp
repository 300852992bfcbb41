#include "bench/measure/machine/recorded_variables.hpp"

#include <algorithm>
#include <array>

namespace plumbline {
namespace {

struct Family {
  std::string_view prefix;
  std::string_view names;  // names after the prefix, each between blanks
};

// From the manuals of OpenMP 5.2, GNU libgomp 12, glibc 2.36 (mallopt), oneDNN 3, CUDA 13 and NCCL 2.28.
constexpr std::array kFamilies = {
    Family{"OMP_",
           " NUM_THREADS PROC_BIND PLACES SCHEDULE DYNAMIC WAIT_POLICY STACKSIZE THREAD_LIMIT NESTED "
           "MAX_ACTIVE_LEVELS NUM_TEAMS TEAMS_THREAD_LIMIT MAX_TASK_PRIORITY CANCELLATION "},
    Family{"GOMP_", " CPU_AFFINITY SPINCOUNT STACKSIZE "},
    Family{"MALLOC_",
           " ARENA_MAX ARENA_TEST MMAP_MAX_ MMAP_THRESHOLD_ TOP_PAD_ TRIM_THRESHOLD_ PERTURB_ CHECK_ "},
    Family{"DNNL_",
           " MAX_CPU_ISA CPU_ISA_HINTS DEFAULT_FPMATH_MODE PRIMITIVE_CACHE_CAPACITY VERBOSE JIT_PROFILE "},
    Family{"ONEDNN_",
           " MAX_CPU_ISA CPU_ISA_HINTS DEFAULT_FPMATH_MODE PRIMITIVE_CACHE_CAPACITY VERBOSE JIT_PROFILE "},
    Family{"CUDA_",
           " VISIBLE_DEVICES DEVICE_ORDER DEVICE_MAX_CONNECTIONS DEVICE_MAX_COPY_CONNECTIONS LAUNCH_BLOCKING "
           "MODULE_LOADING MODULE_DATA_LOADING CACHE_DISABLE CACHE_MAXSIZE FORCE_PTX_JIT DISABLE_PTX_JIT "
           "FORCE_PRELOAD_LIBRARIES AUTO_BOOST SCALE_LAUNCH_QUEUES GRAPHS_USE_NODE_PRIORITY "
           "BINARY_LOADER_THREAD_COUNT MANAGED_FORCE_DEVICE_ALLOC MPS_ACTIVE_THREAD_PERCENTAGE "
           "MPS_CLIENT_PRIORITY MPS_PINNED_DEVICE_MEM_LIMIT ENABLE_COREDUMP_ON_EXCEPTION "},
    Family{"NCCL_",
           " ALGO PROTO NTHREADS BUFFSIZE MIN_NCHANNELS MAX_NCHANNELS MIN_CTAS MAX_CTAS CTA_POLICY "
           "CGA_CLUSTER_SIZE NCHANNELS_PER_NET_PEER MIN_P2P_NCHANNELS MAX_P2P_NCHANNELS LL_THRESHOLD "
           "TREE_THRESHOLD SINGLE_RING_THRESHOLD P2P_DISABLE P2P_LEVEL P2P_DIRECT_DISABLE P2P_LL_THRESHOLD "
           "P2P_NET_CHUNKSIZE P2P_NVL_CHUNKSIZE P2P_PCI_CHUNKSIZE P2P_PXN_LEVEL P2P_USE_CUDA_MEMCPY "
           "SHM_DISABLE SHM_USE_CUDA_MEMCPY SHM_MEMCPY_MODE NVB_DISABLE PXN_DISABLE PXN_C2C NVLS_ENABLE "
           "NVLS_NCHANNELS NVLS_CHUNKSIZE NVLSTREE_MAX_CHUNKSIZE MNNVL_ENABLE MNNVL_UUID MNNVL_CLIQUE_ID "
           "CUMEM_ENABLE CUMEM_HOST_ENABLE LOCAL_REGISTER GRAPH_REGISTER GRAPH_MIXING_SUPPORT WIN_ENABLE "
           "WIN_STRIDE RUNTIME_CONNECT LAUNCH_MODE LAUNCH_ORDER_IMPLICIT LAUNCH_RACE_FATAL "
           "MULTI_RANK_GPU_ENABLE IGNORE_CPU_AFFINITY IGNORE_DISABLED_P2P SET_STACK_SIZE CHECK_POINTERS "
           "CHECKS_DISABLE COLLNET_ENABLE COLLNET_NODE_THRESHOLD ALLOC_P2P_NET_LL_BUFFERS WORK_FIFO_BYTES "
           "NET NET_PLUGIN NET_DISABLE_INTRA NET_GDR_LEVEL NET_GDR_READ NET_GDR_C2C NET_SHARED_BUFFERS "
           "NET_SHARED_COMMS NET_OPTIONAL_RECV_COMPLETION NET_MERGE_LEVEL NET_FORCE_MERGE TUNER_PLUGIN "
           "PROFILER_PLUGIN TOPO_FILE GRAPH_FILE GDRCOPY_ENABLE DMABUF_ENABLE CROSS_NIC SOCKET_IFNAME "
           "SOCKET_FAMILY SOCKET_NTHREADS NSOCKS_PERTHREAD SOCKET_INLINE SOCKET_MIN_TASKSIZE "
           "SOCKET_RETRY_CNT COMM_ID_REUSE UID_STAGGER_RATE OOB_NET_ENABLE OOB_NET_IFNAME IB_DISABLE IB_HCA "
           "IB_GID_INDEX IB_ADDR_FAMILY IB_ADDR_RANGE IB_ROCE_VERSION_NUM IB_SL IB_TC IB_FIFO_TC IB_TIMEOUT "
           "IB_RETRY_CNT IB_QPS_PER_CONNECTION IB_SPLIT_DATA_ON_QPS IB_PCI_RELAXED_ORDERING "
           "IB_ADAPTIVE_ROUTING IB_AR_THRESHOLD IB_ECE_ENABLE IB_MERGE_NICS IB_MERGE_VFS IB_DATA_DIRECT "
           "IB_CUDA_SUPPORT IB_WARN_RAIL_LOCAL DEBUG DEBUG_SUBSYS "},
    Family{"PMIX_MCA_", " gds psec ptl "},
};

// Parameters of Open MPI have names that nobody can list, but each begins with its framework. Frameworks that
// start processes (plm, ess, orte) are not among them: their parameters have addresses and keys.
constexpr std::string_view kMcaPrefix = "OMPI_MCA_";
constexpr std::array<std::string_view, 16> kFrameworks = {
    "accelerator", "bcol", "bml",  "btl", "coll", "hwloc",  "mpi",   "mpool",
    "mtl",         "op",   "opal", "osc", "pml",  "rcache", "rmaps", "topo"};

}  // namespace

bool is_recorded_variable(std::string_view name) {
  if (name.starts_with(kMcaPrefix)) {
    const std::string_view parameter = name.substr(kMcaPrefix.size());
    const std::string_view framework = parameter.substr(0, parameter.find('_'));
    return std::find(kFrameworks.begin(), kFrameworks.end(), framework) != kFrameworks.end();
  }
  return std::any_of(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    if (!name.starts_with(family.prefix) || name.find(' ') != std::string_view::npos) return false;
    const std::string_view rest = name.substr(family.prefix.size());
    const std::size_t at = family.names.find(rest);
    for (std::size_t found = at; found != std::string_view::npos && !rest.empty();
         found = family.names.find(rest, found + 1)) {
      if (family.names[found - 1] == ' ' && family.names[found + rest.size()] == ' ') return true;
    }
    return false;
  });
}

}  // namespace plumbline
